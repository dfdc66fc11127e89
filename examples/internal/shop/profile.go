package shop

import (
	"context"

	"gorm.io/gorm/clause"

	"github.com/auth19/idem/core"
)

// ProfileInput is the body of PATCH /v1/profile.
type ProfileInput struct {
	Name string `json:"name"`
}

// Profile is the caller's profile and its answer.
type Profile struct {
	Name string `json:"name"`
}

// profile is the row of a profile.
type profile struct {
	Owner string `gorm:"primaryKey;size:64"`
	Name  string `gorm:"not null"`
}

// Rename sets the caller's name. It needs no key, because doing it twice has the same effect as once.
func (s *Shop) Rename(ctx context.Context, p core.Principal, in ProfileInput) (*Profile, error) {
	if err := checkText("name", in.Name); err != nil {
		return nil, err
	}
	err := s.db.WithContext(ctx).Clauses(clause.OnConflict{UpdateAll: true}).
		Create(&profile{Owner: ownerOf(p), Name: in.Name}).Error
	return &Profile{Name: in.Name}, err
}

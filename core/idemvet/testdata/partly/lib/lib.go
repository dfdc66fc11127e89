// Package lib is whole, too.
package lib

import "gorm.io/gorm"

type payment struct{ ID uint }

func Save(db *gorm.DB) { db.Save(&payment{}) }

package core

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Profile says which standard the problems of a module follow, where standards differ. A module follows one of them whole.
type Profile uint8

const (
	// AUTH19 is the default: 409 for a key that was used for another command, as for every problem that a record causes.
	AUTH19 Profile = iota
	// IETF is draft-ietf-httpapi-idempotency-key-header-07, section 2.7. It asks for 400 where the key is missing, 422 where it
	// was used for another command, 409 where the first request is still running, and in each of them for a link to the
	// documentation. So two things differ from AUTH19: key_reused is 422, and the "type" of the problems is an address, for
	// which Config.ProblemBase or Config.PolicyURL has to be one.
	IETF
)

// String returns the name of the profile, as the public policy has it.
func (p Profile) String() string {
	switch p {
	case AUTH19:
		return "AUTH-19"
	case IETF:
		return "draft-ietf-httpapi-idempotency-key-header-07"
	}
	return fmt.Sprintf("Profile(%d)", uint8(p))
}

// kind is what all problems of a code share. An unknown code is a 500.
func (p Profile) kind(code Code) problemKind {
	kind, ok := problemKinds[code]
	switch {
	case !ok:
		kind.status, kind.title = http.StatusInternalServerError, "Internal error"
	case p == IETF && code == CodeKeyReused:
		kind.status = http.StatusUnprocessableEntity
	}
	return kind
}

// defaultBase is the ProblemBase of a configuration that has none. In the policy page every problem has an anchor.
func (c Config) defaultBase() string {
	if c.Profile == IETF && isAddress(c.PolicyURL) && !strings.ContainsAny(c.PolicyURL, "?#") {
		return c.PolicyURL + "#"
	}
	return defaultProblemBase
}

// check says what is wrong with a profile, under which problems have this base.
func (p Profile) check(base string) error {
	switch {
	case p > IETF:
		return fmt.Errorf("%d is no profile; use core.AUTH19, the default, or core.IETF", uint8(p))
	case p == IETF && !isAddress(base):
		return errors.New("IETF asks for a link to the documentation in each problem; set PolicyURL, or ProblemBase, to an " +
			"http(s) URL")
	}
	return nil
}

// checkProfile returns which policies contradict the profile (P-2).
func (m *Module) checkProfile() error {
	var errs []error
	for _, r := range m.allRoutes() {
		if m.cfg.Profile == IETF && r.guarded() && r.Wait > 0 {
			errs = append(errs, fmt.Errorf("%s: Wait: the draft asks for an error while the first request is running; leave "+
				"Wait out, or use core.AUTH19", r.field()))
		}
	}
	slices.SortFunc(errs, func(a, b error) int { return cmp.Compare(a.Error(), b.Error()) })
	return errors.Join(errs...)
}

// isAddress reports whether s is an http(s) URL.
func isAddress(s string) bool {
	parsed, err := url.Parse(s)
	return err == nil && (parsed.Scheme == "https" || parsed.Scheme == "http") && parsed.Host != ""
}

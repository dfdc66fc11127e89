package pgtest

import (
	"errors"
	"os"
	"os/exec"
	"os/user"
	"strconv"
)

// account is the unprivileged user that runs the server in place of root; nil is the user who runs the tests.
type account struct{ uid, gid uint32 }

// serverAccount finds an account for the server if the tests run as root, since PostgreSQL refuses to run as root.
func serverAccount() (*account, error) {
	if !runsAsRoot() {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		found, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, uidErr := strconv.ParseUint(found.Uid, 10, 32)
		gid, gidErr := strconv.ParseUint(found.Gid, 10, 32)
		if err := errors.Join(uidErr, gidErr); err != nil {
			return nil, err
		}
		return &account{uid: uint32(uid), gid: uint32(gid)}, nil
	}
	return nil, errors.New("pgtest: PostgreSQL does not run as root: make a user postgres, or test as another user")
}

// give hands files over to the account.
func (a *account) give(paths ...string) error {
	if a == nil {
		return nil
	}
	for _, path := range paths {
		if err := os.Chown(path, int(a.uid), int(a.gid)); err != nil {
			return err
		}
	}
	return nil
}

// run makes a command start under the account.
func (a *account) run(cmd *exec.Cmd) {
	if a != nil {
		setCredential(cmd, a.uid, a.gid)
	}
}

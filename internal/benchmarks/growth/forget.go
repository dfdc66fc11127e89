package main

import (
	"context"
	"io/fs"
	"path/filepath"

	"github.com/auth19/idem/internal/pgtest"
)

// forget makes all that comes next read from the disk: the server is started anew, and the system forgets its files.
// The error is [errors.ErrUnsupported] where the system cannot be told to.
func (g *growth) forget(ctx context.Context, tables []*database) error {
	var directory string
	if err := tables[0].ask(ctx, "SHOW data_directory", &directory); err != nil {
		return err
	}
	for _, d := range tables { // whose connections end with the server
		d.pool.SetMaxIdleConns(0)
		defer d.pool.SetMaxIdleConns(connections)
	}
	g.cluster.Stop(pgtest.Fast)
	defer g.cluster.Start()
	return filepath.WalkDir(filepath.Join(directory, "base"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		return forgetFile(path)
	})
}

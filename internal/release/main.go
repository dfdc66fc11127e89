// Command release prepares a release and proves that what would be tagged can be installed.
//
//	go run ./internal/release -tidy             go mod tidy in every module, published or not
//	go run ./internal/release -check            CI: tidy, and a consumer outside of the repository can be built
//	go run ./internal/release -version v0.2.0   writes the version that the modules require of each other
//	go run ./internal/release -tag v0.2.0 -into ../idem-release    makes all tags in a clone, and says what to push
//
// docs/contributors/releasing.md says when to use which.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
)

// root is the path of the library's module; the paths of the others begin with it.
const root = "github.com/auth19/idem"

func main() {
	tidy := flag.Bool("tidy", false, "run go mod tidy in every module")
	check := flag.Bool("check", false, "see that all is tidy, and build a consumer outside of the repository")
	version := flag.String("version", "", "write the version that the tree's modules require of each other: v0.2.0")
	tag := flag.String("tag", "", "make the commit and all tags of a version in the clone of -into: v0.2.0")
	into := flag.String("into", "", "with -tag: the directory of the clone, which must not exist")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, *tidy, *check, *version, *tag, *into)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// run trusts the repository, which CI often checks out as another user, whom git then distrusts.
func run(ctx context.Context, tidy, check bool, version, tag, into string) error {
	tree, err := openTree(ctx)
	if err != nil {
		return err
	}
	for name, value := range map[string]string{
		"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": tree.directory,
	} {
		if err := os.Setenv(name, value); err != nil {
			return err
		}
	}
	switch {
	case tag != "":
		return tree.tag(ctx, tag, into)
	case version != "":
		return tree.setVersion(version)
	case tidy:
		return tree.tidy(ctx, false)
	case check:
		if err := tree.tidy(ctx, true); err != nil {
			return err
		}
		return tree.check(ctx)
	default:
		return errors.New("say -tidy, -check, -version or -tag")
	}
}

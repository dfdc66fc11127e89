package inbox_test

import (
	"testing"

	"go.uber.org/goleak"
)

// The rules of the inbox are tested by the package gormstore, in inbox*_test.go: those tests need its databases.

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func must(err error) {
	if err != nil {
		panic(err)
	}
}

package gormstore_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"os"

	"gorm.io/gorm"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/gormstore"
)

// In development, a write past the attempt is reported with its file and line, once for each place.
func ExampleReportStrayWrites() {
	db, done := exampleDB()
	defer done()
	before := slog.Default()
	defer slog.SetDefault(before)
	slog.SetDefault(slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey || a.Key == "place" { // they are never the same
				return slog.Attr{}
			}
			return a
		},
	})))

	store, err := gormstore.New(db, gormstore.ReportStrayWrites(func(place string) {
		slog.Warn("a write past the attempt", "place", place)
	}))
	must(err)
	defer func() { must(store.Close()) }()
	idem, err := core.New(core.Config{Store: store, Policy: core.Policy{Recovery: core.Rollback}})
	must(err)
	db = db.Session(&gorm.Session{DryRun: true}) // else the write would wait for the attempt's locks
	examplePost(idem, "a", func(http.ResponseWriter, *http.Request) {
		db.Create(&Booking{Amount: "12.50"})
	})
	fmt.Println("done")
	// Output:
	// level=WARN msg="a write past the attempt"
	// done
}

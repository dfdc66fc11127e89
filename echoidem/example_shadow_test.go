package echoidem_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"
	"gorm.io/gorm"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/echoidem"
	"github.com/auth19/idem/gormstore"
)

// Voucher is a row of an app that had no idempotency keys so far.
type Voucher struct {
	ID     uint
	Amount string
}

// inTx works before and after the key is enforced: in shadow in a transaction of its own, as it was before, and in an
// attempt in the attempt's, which commits with the answer.
func inTx(ctx context.Context, db *gorm.DB, work func(tx *gorm.DB) error) error {
	if core.InShadow(ctx) {
		return db.WithContext(ctx).Transaction(work)
	}
	return work(gormstore.Tx(ctx))
}

// A route whose clients do not all send keys yet. It is watched first: nothing is refused and nothing replayed, and the
// observer says who would have been, and which vouchers were made twice.
func Example_shadow() {
	ctx := context.Background()
	db, verifier, done := exampleApp(ctx)
	defer done()
	check(db.AutoMigrate(&Voucher{}))
	store, err := gormstore.New(db)
	check(err)
	e := echo.New()

	idem, err := core.New(core.Config{
		Store: store,
		Routes: core.Routes{"POST /v1/vouchers": {
			Recovery:    core.Rollback,
			ShadowUntil: time.Now().AddDate(0, 0, 30), // a fixed date in your app: from then on the key is enforced
		}},
		Observer: core.ObserverFunc(func(_ context.Context, e core.Event) {
			fmt.Println(strings.TrimSpace(fmt.Sprint("- ", e.Kind, " ", e.Code)))
		}),
	})
	check(err)
	echoidem.TrackRoutes(e) // for the audit, before the first route
	v1 := e.Group("/v1", echoidem.JWTGuard(verifier), echoidem.Idempotent(idem))
	v1.POST("/vouchers", func(c echo.Context) error {
		var v Voucher
		if err := c.Bind(&v); err != nil {
			return err
		}
		err := inTx(c.Request().Context(), db, func(tx *gorm.DB) error { return tx.Create(&v).Error })
		if err != nil {
			return err
		}
		return c.JSON(http.StatusCreated, v)
	})
	for _, route := range idem.Shadowed() { // said at every start, so that it is not forgotten
		fmt.Println("in shadow:", route.Method, route.Pattern)
	}
	check(errors.Join(echoidem.Audit(e, idem), gormstore.Audit(ctx, db)))

	for _, key := range []string{"key-1", "key-1", "key-2", ""} {
		w := exampleSend(e, http.MethodPost, "/v1/vouchers", "customer", key, `{"amount":"20.00"}`)
		fmt.Printf("%d %q\n", w.Code, key)
	}
	check(store.Close())

	// Output:
	// in shadow: POST /v1/vouchers
	// - shadowed
	// - would_claim
	// 201 "key-1"
	// - would_replay
	// 201 "key-1"
	// - would_claim
	// - suspected_duplicate
	// 201 "key-2"
	// - would_refuse key_missing
	// - suspected_duplicate
	// 201 ""
}

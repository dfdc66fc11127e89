package main

import (
	"errors"
	"net/http"

	"github.com/golang-jwt/jwt/v5"
	"github.com/labstack/echo/v4"
	"gorm.io/gorm"

	"github.com/auth19/idem/gormstore"
)

type handlers struct{ db *gorm.DB }

func (h handlers) show(c echo.Context) error {
	var s Show
	if err := h.db.WithContext(c.Request().Context()).Take(&s, "id = ?", c.Param("id")).Error; err != nil {
		return echo.ErrNotFound.WithInternal(err)
	}
	return c.JSON(http.StatusOK, s)
}

func (h handlers) like(c echo.Context) error {
	like := Like{Customer: customer(c), Show: c.Param("id")}
	if err := h.db.WithContext(c.Request().Context()).Save(&like).Error; err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}

func (h handlers) orders(c echo.Context) error {
	var list []Order
	if err := h.db.WithContext(c.Request().Context()).Where("customer = ?", customer(c)).Find(&list).Error; err != nil {
		return err
	}
	return c.JSON(http.StatusOK, list)
}

// order books the order, takes the seats, and gives points for it.
func (h handlers) order(c echo.Context) error {
	var o Order
	if err := c.Bind(&o); err != nil || o.Seats < 1 {
		return echo.NewHTTPError(http.StatusBadRequest, "show and seats are needed")
	}
	o.ID, o.Customer = 0, customer(c)
	db := gormstore.Tx(c.Request().Context()) // the attempt's transaction; Transaction is a savepoint in it
	switch created, err := gormstore.CreateOnce(db, &o); {
	case errors.Is(err, gormstore.ErrOtherOperation):
		return echo.ErrConflict
	case err != nil:
		return err
	case !created: // its record was lost, and o is what the attempt before has booked
		return c.JSON(http.StatusCreated, o)
	}
	err := db.Transaction(func(tx *gorm.DB) error {
		seats := tx.Model(&Show{}).Where("id = ? AND seats >= ?", o.Show, o.Seats).
			Update("seats", gorm.Expr("seats - ?", o.Seats))
		if seats.Error == nil && seats.RowsAffected == 0 {
			return echo.NewHTTPError(http.StatusConflict, "sold out")
		}
		return seats.Error
	})
	if err != nil {
		return err
	}
	if err := db.Create(&Points{Customer: o.Customer, Points: o.Seats}).Error; err != nil {
		return err
	}
	return c.JSON(http.StatusCreated, o)
}

// customer returns whom echo-jwt has let pass.
func customer(c echo.Context) string {
	token, ok := c.Get("user").(*jwt.Token)
	if !ok {
		return ""
	}
	subject, _ := token.Claims.GetSubject()
	return subject
}

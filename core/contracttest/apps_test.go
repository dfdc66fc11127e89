package contracttest_test

import (
	"net/http"

	"github.com/gin-gonic/gin"
	"github.com/labstack/echo/v4"

	"github.com/auth19/idem/echoidem"
	"github.com/auth19/idem/ginidem"
)

// onGin serves the bank with Gin.
func onGin(b *bank) http.Handler {
	return onGinBehind(b, ginidem.JWTGuard(b.verifier), ginidem.Idempotent(b.idem))
}

func onGinBehind(b *bank, guards ...gin.HandlerFunc) http.Handler {
	gin.SetMode(gin.ReleaseMode)
	r := gin.New()
	r.HandleMethodNotAllowed = true
	answer := func(c *gin.Context, done payment, err error) {
		if err != nil {
			status, body := statusOf(err)
			c.AbortWithStatusJSON(status, body)
			return
		}
		c.Header("Location", "/v1/payments/"+done.ID)
		c.JSON(http.StatusCreated, done)
	}
	pay := func(c *gin.Context) {
		var in payment
		if c.ShouldBindJSON(&in) != nil {
			answer(c, in, errInvalid)
			return
		}
		done, err := b.pay(c.Request.Context(), in)
		answer(c, done, err)
	}
	v1 := r.Group("/v1", guards...)
	v1.POST("/payments", pay)
	v1.POST("/accounts/:id/payments", pay)
	v1.POST("/transfers", pay)
	v1.PUT("/receipts", func(c *gin.Context) {
		done, err := b.upload(c.Request)
		answer(c, done, err)
	})
	v1.GET("/operation", ginidem.OwnOperationHandler(b.idem))
	v1.GET("/operations/:id", ginidem.OperationHandler(b.idem))
	return r
}

// onEcho serves the bank with Echo.
func onEcho(b *bank) http.Handler {
	e := echo.New()
	answer := func(c echo.Context, done payment, err error) error {
		if err != nil {
			status, body := statusOf(err)
			return echo.NewHTTPError(status, body)
		}
		c.Response().Header().Set(echo.HeaderLocation, "/v1/payments/"+done.ID)
		return c.JSON(http.StatusCreated, done)
	}
	pay := func(c echo.Context) error {
		var in payment
		if err := c.Bind(&in); err != nil {
			return err
		}
		done, err := b.pay(c.Request().Context(), in)
		return answer(c, done, err)
	}
	v1 := e.Group("/v1", echoidem.JWTGuard(b.verifier), echoidem.Idempotent(b.idem))
	v1.POST("/payments", pay)
	v1.POST("/accounts/:id/payments", pay)
	v1.POST("/transfers", pay)
	v1.PUT("/receipts", func(c echo.Context) error {
		done, err := b.upload(c.Request())
		return answer(c, done, err)
	})
	v1.GET("/operation", echoidem.OwnOperationHandler(b.idem))
	v1.GET("/operations/:id", echoidem.OperationHandler(b.idem))
	return e
}

// frameworks are the ways to serve the bank.
var frameworks = map[string]func(*bank) http.Handler{"gin": onGin, "echo": onEcho}

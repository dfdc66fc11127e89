package web

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/examples/internal/shop"
)

func decode(body, contentType string) (in shop.OrderInput, err error) {
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
	r.Header.Set("Content-Type", contentType)
	return in, Decode(r, &in)
}

func TestDecode(t *testing.T) {
	for _, contentType := range []string{"application/json", "application/json; charset=utf-8", "application/x+json", ""} {
		in, err := decode(` {"customer_id":"c","unknown":[1],"items":[{"sku":"a","qty":2,"price":"1.00"}]} `+"\n", contentType)
		require.NoError(t, err)
		require.Equal(t, shop.OrderInput{CustomerID: "c", Items: []shop.Item{{SKU: "a", Qty: 2, Price: "1.00"}}}, in)
	}
}

func TestDecodeRefuses(t *testing.T) {
	for _, body := range []string{
		"", " ", "{", "[]", `"text"`, "1", `{}{}`, `{} x`, `{"customer_id":1}`, `{"items":{}}`, `{"items":[{"qty":1.5}]}`,
		`{"items":[{"qty":"1"}]}`, `{"items":[{"qty":99999999999999999999}]}`, `{"items":[{"price":1.00}]}`,
		strings.Repeat("[", 20_000), "\xff",
	} {
		_, err := decode(body, "application/json")
		require.ErrorIs(t, err, errMalformed, "%q", body)
		require.Equal(t, http.StatusBadRequest, ProblemOf(err).Status)
	}
	_, err := decode(`{"items":[{"qty":"1"}]}`, "application/json")
	require.ErrorContains(t, err, "items.qty")

	_, err = decode(`{"customer_id":"`+strings.Repeat("x", maxBody)+`"}`, "application/json")
	require.Equal(t, http.StatusRequestEntityTooLarge, ProblemOf(err).Status)

	for _, contentType := range []string{"text/plain", "application/x-www-form-urlencoded", "application/jsonp", ";"} {
		_, err := decode("{}", contentType)
		require.Equal(t, http.StatusUnsupportedMediaType, ProblemOf(err).Status, contentType)
	}
}

func TestProblemOf(t *testing.T) {
	p := ProblemOf(fmt.Errorf("wrapped: %w", shop.ErrOutOfStock))
	require.Equal(t, http.StatusConflict, p.Status)
	require.Equal(t, "out_of_stock", p.Code)

	p = ProblemOf(&shop.InvalidError{Field: "amount", Want: "money"})
	require.Equal(t, http.StatusUnprocessableEntity, p.Status)
	require.Equal(t, "amount: want money", p.Detail)

	p = ProblemOf(fmt.Errorf("%w: secret of the database", core.ErrRetryable))
	require.Equal(t, http.StatusServiceUnavailable, p.Status)
	require.Equal(t, "interrupted", p.Code)
	require.NotContains(t, p.Detail, "secret")

	p = ProblemOf(errors.New("secret of the database"))
	require.Equal(t, http.StatusInternalServerError, p.Status)
	require.NotContains(t, p.Detail, "secret")
}

package main

import (
	"net/http"
	"strings"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/golang-jwt/jwt/v5"
)

var secret = []byte("a development secret, of 32 bytes or more")

// claims are those of the app's own tokens: a numeric user id, and no issuer.
type claims struct {
	UserID uint `json:"user_id"`
	jwt.RegisteredClaims
}

func newToken(user uint) (string, error) {
	return jwt.NewWithClaims(jwt.SigningMethodHS256, claims{user, jwt.RegisteredClaims{
		ExpiresAt: jwt.NewNumericDate(time.Now().Add(time.Hour)),
	}}).SignedString(secret)
}

// auth is the app's own middleware.
func auth(c *gin.Context) {
	var found claims
	token, _ := strings.CutPrefix(c.GetHeader("Authorization"), "Bearer ")
	_, err := jwt.ParseWithClaims(token, &found, func(*jwt.Token) (any, error) { return secret, nil },
		jwt.WithValidMethods([]string{"HS256"}), jwt.WithExpirationRequired())
	if err != nil {
		c.AbortWithStatusJSON(http.StatusUnauthorized, gin.H{"error": "please log in"})
		return
	}
	c.Set("user_id", found.UserID)
}

//go:build deps

// Package deps keeps requirements in go.mod that no code uses yet. Delete it when all do.
package deps

import (
	_ "github.com/MicahParks/keyfunc/v3"
	_ "github.com/gin-gonic/gin"
	_ "github.com/golang-jwt/jwt/v5"
	_ "github.com/labstack/echo/v4"
	_ "github.com/ncruces/go-sqlite3/driver"
	_ "github.com/ncruces/go-sqlite3/gormlite"
	_ "go.uber.org/goleak"
	_ "gorm.io/driver/postgres"
	_ "gorm.io/gorm"
)

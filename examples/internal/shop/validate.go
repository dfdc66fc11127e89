package shop

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode"
)

var (
	amountPattern   = regexp.MustCompile(`^(0|[1-9][0-9]{0,9})(\.[0-9]{1,2})?$`)
	currencyPattern = regexp.MustCompile(`^[A-Z]{3}$`)
	idPattern       = regexp.MustCompile(`^[a-z]{3}_[a-z0-9]{26}$`)
)

// parseAmount returns a decimal amount in cents. It uses no float, because 0.1 has no exact one.
func parseAmount(field, amount string) (int64, error) {
	if amountPattern.MatchString(amount) {
		whole, fraction, _ := strings.Cut(amount, ".")
		cents, err := strconv.ParseInt(whole+(fraction + "00")[:2], 10, 64)
		if err == nil && cents > 0 {
			return cents, nil
		}
	}
	return 0, &InvalidError{field, `a decimal string above "0" and below "10000000000", with at most two decimals`}
}

// formatCents returns cents as a decimal amount.
func formatCents(cents int64) string { return fmt.Sprintf("%d.%02d", cents/100, cents%100) }

func checkCurrency(currency string) error {
	if !currencyPattern.MatchString(currency) {
		return &InvalidError{"currency", "three upper-case letters"}
	}
	return nil
}

// checkText accepts a text that the database can store and people can read.
func checkText(field, text string) error {
	if text == "" || len(text) > 255 || strings.ContainsFunc(text, unicode.IsControl) {
		return &InvalidError{field, "a text of 1 to 255 bytes without control characters"}
	}
	return nil
}

// isID reports whether id can be the id of a row. A path may contain anything.
func isID(id string) bool { return idPattern.MatchString(id) }

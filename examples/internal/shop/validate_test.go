package shop

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
)

func TestParseAmount(t *testing.T) {
	for text, cents := range map[string]int64{
		"10": 1000, "10.0": 1000, "10.00": 1000, "0.01": 1, "0.1": 10, "9999999999.99": 999_999_999_999,
	} {
		got, err := parseAmount("amount", text)
		require.NoError(t, err, text)
		require.Equal(t, cents, got, text)
	}
	for _, text := range []string{"", "0", "0.00", "-1", "+1", "1.001", "1.", ".5", "1e5", "1,00", "01", " 1", "1 ", "NaN",
		"0x10", "10000000000", "99999999999999999999999", "1.00\n", "１"} {
		_, err := parseAmount("amount", text)
		var invalid *InvalidError
		require.ErrorAs(t, err, &invalid, "%q", text)
		require.Equal(t, "amount", invalid.Field)
	}
}

func TestAmountsAreExact(t *testing.T) {
	for digits := int64(1); digits <= 100_000_000_000; digits *= 10 {
		for _, cents := range []int64{digits, digits + 1, 3*digits + 7, 9*digits - 1} {
			parsed, err := parseAmount("amount", formatCents(cents))
			require.NoError(t, err)
			require.Equal(t, cents, parsed)
		}
	}
}

func TestCheckText(t *testing.T) {
	require.NoError(t, checkText("name", "Ünïcode is fine"))
	for _, text := range []string{"", "nul\x00", "line\nbreak", "\u0085", string(make([]byte, 256))} {
		require.Error(t, checkText("name", text), "%q", text)
	}
}

func TestOwnerIsTheWholePrincipal(t *testing.T) {
	owners := map[string]bool{}
	for _, p := range []core.Principal{
		{Issuer: "a", Subject: "s"}, {Issuer: "b", Subject: "s"}, {Issuer: "a", Tenant: "t", Subject: "s"},
		{Issuer: "a", Subject: "t/s"}, {Issuer: "a", Tenant: "t", Subject: "S"},
	} {
		owners[ownerOf(p)] = true
	}
	require.Len(t, owners, 5)
	require.Equal(t, "s", nameOf(core.Principal{Issuer: "a", Subject: "s"}))
	require.Equal(t, "t/s", nameOf(core.Principal{Issuer: "a", Tenant: "t", Subject: "s"}))
	require.Equal(t, `s\x00`, nameOf(core.Principal{Issuer: "a", Subject: "s\x00"}))
}

package core_test

import (
	"database/sql"
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
)

// unsetIDs are what ids print as that nobody has set.
var unsetIDs = func() []string {
	var (
		none   any
		nobody *string
		name   sql.NullString
		number sql.NullInt64
		object [12]byte
	)
	const zero = "00000000-0000-0000-0000-000000000000"
	return []string{
		"", " ", "0", "00", "0.0", "-1", "null", "(null)", "undefined", "None", "NaN", "0x0",
		fmt.Sprint(none), fmt.Sprint(nobody), fmt.Sprintf("%s", none), fmt.Sprintf("%d", none), "%!s(int=0)",
		fmt.Sprintf("user-%v", none), fmt.Sprint(0.0), fmt.Sprintf("%f", 0.0), "%!v(PANIC=String method: nil pointer)",
		zero, "urn:uuid:" + zero, "{" + zero + "}", "{" + zero + " false}", "user:" + zero, string(make([]byte, 16)),
		fmt.Sprint([16]byte{}), "00000000000000000000000000000000", fmt.Sprint(name), fmt.Sprint(number),
		fmt.Sprintf("%x", object), `ObjectID("000000000000000000000000")`, "user_00000000000000000000000000",
		"00000000000000000000", "00000000000000000000000000",
	}
}()

// CONTRACT S-6
func TestIDsThatStandForNobody(t *testing.T) {
	for _, id := range unsetIDs {
		for field, p := range map[string]core.Principal{
			"subject": {Issuer: "https://issuer.example", Subject: id},
			"issuer":  {Issuer: id, Subject: "alice"},
			"tenant":  {Issuer: "https://issuer.example", Tenant: id, Subject: "alice"},
		} {
			require.Equal(t, field == "tenant" && id == "", p.Valid(), "%s %q", field, id)
			a := newApp(t, core.Config{}, created)
			if !p.Valid() {
				requireProblem(t, a.postAs(p, "k-1", `{}`), http.StatusUnauthorized, core.CodeUnauthenticated)
				require.Zero(t, a.ran())
			}
		}
	}
	for _, id := range []string{
		"1", "10", "x", "a", "7f", "alice", "user-0", "alice@shop.example", "auth0|5f7c8ec7c33c6c004bbafe82", "用户", "-", "Nil",
		"10000000-0000-0000-0000-000000000000", "00000000-0000-0000-0000-000000000001", "11111111-0000-0000-0000-000000000000",
		"10000000000000000000000000000000", "507f1f77bcf86cd799439011", "100000000000000000000000", "nullable", "100%",
		"false", "0b", "0xf", "000123", "spiffe://shop.example/ns/pay",
	} {
		p := core.Principal{Issuer: "https://issuer.example", Tenant: id, Subject: id}
		require.True(t, p.Valid(), id)
	}
}

// A client counts where Scoping says so.
//
// CONTRACT S-6, S-4
func TestClientThatStandsForNobody(t *testing.T) {
	a := newApp(t, core.Config{Scoping: core.Scoping{RequireClient: true}}, created)
	p := alice
	for _, id := range unsetIDs {
		p.Client = id
		requireProblem(t, a.postAs(p, "k-1", `{}`), http.StatusUnauthorized, core.CodeUnauthenticated)
	}
	p.Client = "web"
	require.Equal(t, http.StatusCreated, a.postAs(p, "k-1", `{}`).Code)
}

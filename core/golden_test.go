package core

import (
	"encoding/hex"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// The values in this file were computed by another program from the layouts in the comments of RecordID,
// PrincipalScope and hashV1. They are in databases: a test here that fails is a bug in the code, never in the value.

// CONTRACT K-6
func TestGoldenIDs(t *testing.T) {
	const issuer, key = "https://issuer.example", "0193a8f3-9f6e-7c3a-8b1d-2f4c6e8a0b1c"
	for _, tt := range []struct {
		principal Principal
		id, scope string
	}{
		{
			Principal{Issuer: issuer, Subject: "customer-1", Roles: []string{"customer"}},
			"a449659225b78f7b3f00d1ad37da0d562dbe0a19d799b520d9a85a8b7b7420ac",
			"42203f366a670718a3591afd78061026f7296c23143772c855104fafa6d29205",
		}, {
			Principal{Issuer: issuer, Tenant: "shop-7", Subject: "customer-1"},
			"5e83792ffc325d772f0a5d815d7baa25b962296e9dcb4c08c0184728b3f283aa",
			"954dc10d067db1e3dfb7464bff6d7617aeff03d39b2fabf84002bb5be04a4e25",
		}, {
			Principal{Issuer: issuer, Tenant: "shop", Subject: "7customer-1"},
			"91974bcafa44df7ddf815759a9d4f32ee76a0a66f24c29f0f12e336e8a9e6721",
			"29b709d860405b91a0ae21fe85dd8c931bde5cf5e8586b0bb0d30ff05d23b478",
		},
	} {
		require.Equal(t, tt.id, RecordID(tt.principal, key).String())
		scope := PrincipalScope(tt.principal)
		require.Equal(t, tt.scope, hex.EncodeToString(scope[:]))
	}
}

// CONTRACT H-1, H-4
func TestGoldenCommandHashes(t *testing.T) {
	header := http.Header{"X-Account": {"acc-1"}, "X-Trace": {"1", "2"}, "X-Other": {"3"}}
	for _, tt := range []struct {
		name    string
		command command
		sum     string
	}{
		{"empty", command{}, "d1cf2330deaadfac9e3ac35e1fc584db5c186206b2f12ced6a54b1aad51f5cf0"},
		{"json", command{
			method: "POST", path: "/v1/payments", contentType: "application/json; charset=utf-8",
			body: []byte(`{ "order": {"lines":[1.10, 1e2, null], "id":7}, "currency":"EUR", "amount":"12.50" }`),
		}, "00252656efcdc2098315506c4fe22f0238042c1a2e93fe3a9186fd8c61e4e0fa"},
		{"json, query and headers", command{
			method: "PATCH", path: "/v1/payments/a%2Fb", rawQuery: "b=2&c=x%20y&b=1&a=1",
			contentType: "Application/vnd.shop+JSON",
			headers:     namedHeaders(header, []string{"x-trace", "X-Absent", "X-Account"}),
			body:        []byte(`{"name":"\u00c4\/` + "\u2028" + `\n","\u006eame":2}`),
		}, "573542842427fd0512642730859eefd426b15b296021881774dfd37351ba2618"},
		{"invalid json", command{
			method: "POST", path: "/v1/payments", contentType: "application/json", body: []byte(`{"amount":12.50`),
		}, "efa462428d207a6bbb8d089b8c0c6958a41f3c61b09e3c8ded1be1548855bbf9"},
		{"text and an unparsable query", command{
			method: "PUT", path: "/v1/notes/1", rawQuery: "%zz", contentType: "text/plain; format=flowed; Charset=UTF-8",
			body: []byte("hello"),
		}, "4eafb5c7fbc717a722e4c4cba30d0161ed3d5fd676ec01c12928864299ec869d"},
		{"multipart", command{
			method: "POST", path: "/v1/files", contentType: "multipart/form-data; boundary=xyz",
			body: []byte("--xyz\r\ncontent-disposition: form-data; name=\"a\"\r\n\r\n1\r\n" +
				"--xyz\r\nContent-Type: text/plain\r\nContent-Disposition: form-data; name=\"file\"; filename=\"f.txt\"\r\n\r\n" +
				"line\r\nline\r\n--xyz--\r\n"),
		}, "4a65501b7a2a681af0c5727576c9572f69f961cd0500bc19e81539d81d384cfc"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			hash, err := tt.command.hash(1)
			require.NoError(t, err)
			require.Equal(t, int16(1), hash.Version)
			require.Equal(t, tt.sum, hex.EncodeToString(hash.Sum[:]))
		})
	}
}

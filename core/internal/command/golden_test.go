package command

import (
	"encoding/hex"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// The hashes were computed by another program from the layout in the comment of hashV1. They are in databases: a test here
// that fails is a bug in the code, never in the value.
//
// CONTRACT H-1, H-4, H-6, H-8
func TestGoldenCommandHashes(t *testing.T) {
	header := http.Header{"X-Account": {"acc-1"}, "X-Trace": {"1", "2"}, "X-Other": {"3"}}
	for _, tt := range []struct {
		name    string
		command Command
		sum     string
	}{
		{"empty", Command{}, "2c2923f4a6bbfc7c43fe0a0ab588243f427846a0379b8c672c5a63262a20893b"},
		{"json", Command{
			Method: "POST", path: "/v1/payments", contentType: "application/json; charset=utf-8",
			Body: []byte(`{ "order": {"lines":[1.10, 1e2, null], "id":7}, "currency":"EUR", "amount":"12.50" }`),
		}, "7bf107e722c846cf738188be6041fb08ec357289d5d6bd2af822b17478e1ed5b"},
		{"json, query and headers", Command{
			Method: "PATCH", path: "/v1/payments/a%2Fb", rawQuery: "b=2&c=x%20y&b=1&a=1",
			contentType: "Application/vnd.shop+JSON",
			headers:     headersNamed(header, []string{"x-trace", "X-Absent", "X-Account"}),
			Body:        []byte(`{"name":"\u00c4\/` + "\u2028" + `\n","\u006eame":2}`),
		}, "7aa83779df145e8b98c38712f3448f18fac257c44cf319410eff214d8419a17f"},
		{"invalid json", Command{
			Method: "POST", path: "/v1/payments", contentType: "application/json", Body: []byte(`{"amount":12.50`),
		}, "2ff353933c0c3ed11606bf3426b1f6f28131f401098c6a87d52b017b12525363"},
		{"text and an unparsable query", Command{
			Method: "PUT", path: "/v1/notes/1", rawQuery: "%zz", contentType: "text/plain; format=flowed; Charset=UTF-8",
			Body: []byte("hello"),
		}, "b0de51e48025a578452d720ea20205582fb96e560866bead9d5311da3f636a5a"},
		{"parameters and trailers", Command{
			Method: "POST", path: "/v1/payments", contentType: "application/vnd.shop+json; version=2; charset=latin1",
			trailers: allHeaders(http.Header{"X-Late": nil, "X-Digest": {"abc", "def"}}), Body: []byte(`{}`),
		}, "a0d9f4731d3af9e2d55667dbfa06724ab1b08b3a32f3f097b25c342c4ceb4f72"},
		{"a media type that cannot be parsed", Command{
			Method: "POST", path: "/v1/payments", contentType: "Application/JSON; version", Body: []byte(`{ }`),
		}, "611428d04be3f56dc29645ca4e59e6424d81d538b12b4b6b9eb69e36778ba9b6"},
		{"names that fold", Command{
			Method: "POST", path: "/v1/payments", contentType: "application/json",
			Body: []byte(`{"ä":4,"Key":1,"Ä":5,"\u212aEY":2,"key":3}`),
		}, "bbbada9d2c032b41a1990f132805ea2c6a25adb8c39f5875e01b990195fc24be"},
		{"a path in another spelling", Command{
			Method: "POST", path: "/v1/caf%c3%A9/%7e%61%2fb//{;x=%21", contentType: "text/plain", Body: []byte("1"),
		}, "0ef879bda7ccc356013a34e1621c862417ad4dda9f1b0b8b0a7f853e0e1c905a"},
		{"multipart", Command{
			Method: "POST", path: "/v1/files", contentType: "multipart/form-data; boundary=xyz",
			Body: []byte("--xyz\r\ncontent-disposition: form-data; name=\"a\"\r\n\r\n1\r\n" +
				"--xyz\r\nContent-Type: text/plain\r\nContent-Disposition: form-data; name=\"file\"; filename=\"f.txt\"\r\n\r\n" +
				"line\r\nline\r\n--xyz--\r\n"),
		}, "e73f7a7ef0cff877e075194e314e1af095b6128c639d352b180da8780a82fc17"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			hash, err := tt.command.Hash(1)
			require.NoError(t, err)
			require.Equal(t, int16(1), hash.Version)
			require.Equal(t, tt.sum, hex.EncodeToString(hash.Sum[:]))
		})
	}
}

package command

import (
	"bytes"
	"fmt"
	"mime/multipart"
	"net/textproto"
	"strings"
	"testing"

	"github.com/auth19/idem/core/store"
	"github.com/stretchr/testify/require"
)

// testPart is one part of a multipart body.
type testPart struct {
	header  textproto.MIMEHeader
	content string
}

func formPart(name, fileName, contentType, content string) testPart {
	h := textproto.MIMEHeader{"Content-Disposition": {fmt.Sprintf("form-data; name=%q", name)}}
	if fileName != "" {
		h.Set("Content-Disposition", fmt.Sprintf("form-data; name=%q; filename=%q", name, fileName))
	}
	if contentType != "" {
		h.Set("Content-Type", contentType)
	}
	return testPart{h, content}
}

func multipartHash(t *testing.T, boundary string, parts ...testPart) store.CommandHash {
	t.Helper()
	var body bytes.Buffer
	w := multipart.NewWriter(&body)
	if boundary != "" {
		require.NoError(t, w.SetBoundary(boundary))
	}
	for _, p := range parts {
		pw, err := w.CreatePart(p.header)
		require.NoError(t, err)
		_, err = pw.Write([]byte(p.content))
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return bodyHash(t, w.FormDataContentType(), body.String())
}

// CONTRACT H-3
func TestMultipart(t *testing.T) {
	amount := formPart("amount", "", "", "12.50")
	file := formPart("file", "a.txt", "text/plain", "line\r\nline\n--\r\n--x")
	hash := multipartHash(t, "", amount, file)

	require.Equal(t, hash, multipartHash(t, "", amount, file), "a new random boundary")
	require.Equal(t, hash, multipartHash(t, "a", amount, file))
	require.Equal(t, hash, multipartHash(t, "needs quotes: (a)", amount, file))

	transfer := formPart("amount", "", "", "12.50")
	transfer.header.Set("Content-Transfer-Encoding", "quoted-printable")
	for name, parts := range map[string][]testPart{
		"no parts":          {},
		"a part less":       {amount},
		"order":             {file, amount},
		"twice":             {amount, amount, file},
		"content":           {formPart("amount", "", "", "12.51"), file},
		"content moved":     {formPart("amount", "", "", "12.5"), formPart("file", "a.txt", "text/plain", "0"+file.content)},
		"empty content":     {formPart("amount", "", "", ""), file},
		"name":              {formPart("Amount", "", "", "12.50"), file},
		"file name":         {amount, formPart("file", "b.txt", "text/plain", file.content)},
		"no file name":      {amount, formPart("file", "", "text/plain", file.content)},
		"content type":      {amount, formPart("file", "a.txt", "text/html", file.content)},
		"transfer encoding": {transfer, file},
		"end of lines":      {amount, formPart("file", "a.txt", "text/plain", strings.ReplaceAll(file.content, "\r", ""))},
	} {
		require.NotEqual(t, hash, multipartHash(t, "", parts...), name)
	}
	require.Equal(t, multipartHash(t, ""), multipartHash(t, ""), "a form without parts, a new random boundary")
}

// Content is compared as it was sent: decoding could make two of one.
//
// CONTRACT H-3
func TestMultipartIsNotDecoded(t *testing.T) {
	quoted := func(content string) testPart {
		p := formPart("a", "", "", content)
		p.header.Set("Content-Transfer-Encoding", "quoted-printable")
		return p
	}
	require.NotEqual(t, multipartHash(t, "", quoted("=41")), multipartHash(t, "", quoted("A")))
	require.NotEqual(t, multipartHash(t, "", quoted("=4")), multipartHash(t, "", quoted("=")))
}

// CONTRACT H-1, H-3
func TestMultipartFallsBackToRawBytes(t *testing.T) {
	const contentType = "multipart/form-data; boundary=b"
	part := func(content string) string {
		return "--b\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n" + content + "\r\n"
	}
	whole := part("1") + "--b--\r\n"
	_, ok := canonicalMultipart([]byte(whole), "b")
	require.True(t, ok)
	for _, body := range []string{
		"", "x", "--c--", "--b", "--b\r\n", "--b\r\nname", "--b\r\nname: a\r\n", "--b\r\nname: a--b--",
		whole[:len(whole)-10], whole[:len(whole)-7],
		strings.Replace(whole, "--b--", "--b\r\n", 1), "preamble\r\n" + whole, whole + "epilogue", whole + whole + "x",
		strings.Replace(whole, "\r\n--b--", "--b--", 1), "--b\r\nbroken header\r\n\r\n1\r\n--b--\r\n",
		// The parser stops at the first line that closes.
		whole + whole, whole + part("2") + "--b--\r\n", part("1") + "--b-- \t\r\n" + part("2") + "--b--\r\n",
		"--b--\r\n--b--", "--b--\r\n" + whole, "--bc\r\n--b--\r\n" + whole,
		strings.ReplaceAll(whole+whole, "\r", ""),
	} {
		_, ok := canonicalMultipart([]byte(body), "b")
		require.False(t, ok, "%q", body)
		require.NotEqual(t, bodyHash(t, contentType, body), bodyHash(t, contentType, body+" "), "%q", body)
		require.NotEqual(t, bodyHash(t, contentType, body), bodyHash(t, "multipart/form-data; boundary=c", body),
			"the boundary counts where it could not be taken out: %q", body)
		require.NotEqual(t, bodyHash(t, contentType, body), bodyHash(t, contentType, whole), "%q", body)
	}
	require.NotEqual(t, bodyHash(t, "multipart/form-data", whole), bodyHash(t, contentType, whole))

	// other kinds of multipart are compared as they came
	other := strings.ReplaceAll(whole, "--b", "--c")
	require.Equal(t, bodyHash(t, contentType, whole), bodyHash(t, "multipart/form-data; boundary=c", other))
	require.NotEqual(t, bodyHash(t, "multipart/mixed; boundary=b", whole),
		bodyHash(t, "multipart/mixed; boundary=c", other))
}

// A body cannot be written to look like the canonical form of another.
//
// CONTRACT H-1, H-2, H-3
func TestRawIsNotCanonical(t *testing.T) {
	whole := "--b\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n--b--\r\n"
	canonical, ok := canonicalMultipart([]byte(whole), "b")
	require.True(t, ok)
	one, other := bodyHash(t, "multipart/form-data; boundary=b", whole), bodyHash(t, "multipart/form-data", string(canonical))
	require.NotEqual(t, one, other)
}

package ecr_test

import (
	"bytes"
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/ecr"

	"github.com/coracle-eks/coracle/internal/host/image"
)

// FuzzPassword shows that the registry takes a token of GetAuthorizationToken for a password, and nothing that it
// becomes when it is altered.
func FuzzPassword(f *testing.F) {
	w := newFixture(f, image.Options{})
	out, err := w.ecr(w.Root).GetAuthorizationToken(f.Context(), &ecr.GetAuthorizationTokenInput{})
	if err != nil {
		f.Fatal(err)
	}
	text, err := base64.StdEncoding.DecodeString(*out.AuthorizationData[0].AuthorizationToken)
	if err != nil {
		f.Fatal(err)
	}
	_, password, _ := strings.Cut(string(text), ":")
	genuine, err := base64.StdEncoding.DecodeString(password)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(genuine, true)
	f.Add([]byte(password), false)
	f.Add([]byte(password+password), false)
	f.Add([]byte(w.Root.SecretAccessKey), false)
	handler := w.images.Handler(w.access)
	f.Fuzz(func(t *testing.T, given []byte, encode bool) {
		if encode {
			given = []byte(base64.StdEncoding.EncodeToString(given))
		}
		r := httptest.NewRequest(http.MethodGet, "https://"+host+"/v2/", nil)
		r.SetBasicAuth("AWS", string(given))
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, r)
		// A line end or a space around it is how people paste it.
		decoded, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(given)))
		if good := err == nil && bytes.Equal(decoded, genuine); answer.Code != http.StatusOK &&
			answer.Code != http.StatusUnauthorized &&
			answer.Code != http.StatusForbidden ||
			answer.Code == http.StatusOK && !good {
			t.Fatalf("%q is answered with %d %s", given, answer.Code, answer.Body)
		}
	})
}

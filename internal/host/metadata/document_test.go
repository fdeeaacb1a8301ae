//go:build linux

package metadata

import (
	"encoding/base64"
	"encoding/pem"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestTheIdentityDocumentIsSigned(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	document := w.do(http.MethodGet, "/latest/dynamic/instance-identity/document").body
	want := `{
  "accountId": "111122223333",
  "architecture": "x86_64",
  "availabilityZone": "eu-west-1a",
  "billingProducts": null,
  "devpayProductCodes": null,
  "marketplaceProductCodes": null,
  "imageId": "ami-1",
  "instanceId": "i-0123456789abcdef0",
  "instanceType": "m5.large",
  "kernelId": null,
  "pendingTime": "2026-11-21T13:59:58Z",
  "privateIp": "10.0.0.4",
  "ramdiskId": null,
  "region": "eu-west-1",
  "version": "2017-09-30"
}`
	if document != want {
		t.Errorf("document is %s", document)
	}
	openssl, err := exec.LookPath("openssl")
	if err != nil {
		t.Skip("openssl, which is to verify the signatures, is not installed")
	}
	dir := t.TempDir()
	der, err := os.ReadFile(filepath.Join(w.dir, "metadata/identity.crt"))
	if errors.Is(err, fs.ErrNotExist) {
		w.do(http.MethodGet, "/latest/dynamic/instance-identity/signature")
		der, err = os.ReadFile(filepath.Join(w.dir, "metadata/identity.crt"))
	}
	if err != nil {
		t.Fatal(err)
	}
	file := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	certificate := file("cert", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	run := func(args ...string) string {
		t.Helper()
		out, err := exec.Command(openssl, args...).CombinedOutput()
		if err != nil {
			t.Errorf("openssl %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	signature, err := base64.StdEncoding.DecodeString(strings.ReplaceAll(w.do(http.MethodGet,
		"/latest/dynamic/instance-identity/signature").body, "\n", ""))
	if err != nil {
		t.Fatal(err)
	}
	public := file("public", []byte(run("x509", "-pubkey", "-noout", "-in", certificate)))
	run("dgst", "-sha256", "-verify", public, "-signature", file("signature", signature),
		file("document", []byte(document)))
	// As AWS says how to do it.
	message := "-----BEGIN PKCS7-----\n" + w.do(http.MethodGet, "/latest/dynamic/instance-identity/rsa2048").body +
		"\n-----END PKCS7-----\n"
	if out := run("smime", "-verify", "-inform", "PEM", "-in", file("rsa2048", []byte(message)), "-certfile",
		certificate, "-noverify"); !strings.Contains(out, machineID) {
		t.Errorf("openssl says %s", out)
	}
}

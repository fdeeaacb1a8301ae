package keypair

import (
	"errors"
	"strings"
	"testing"

	"github.com/coracle-eks/coracle/internal/aws/wire"
)

// FuzzImportKey shows that a key that is imported is one line of OpenSSH's form, which is the same key again.
func FuzzImportKey(f *testing.F) {
	for _, key := range []string{
		"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f user@host", `command="x" ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f`,
		"-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAAAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n-----END PUBLIC KEY-----\n", "MCowBQYDK2VwAyEAAAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=", "ssh-rsa AAAA", "",
	} {
		f.Add([]byte(key))
	}
	f.Fuzz(func(t *testing.T, material []byte) {
		key, err := importKey(material)
		var refused *wire.Error
		if err != nil {
			if !errors.As(err, &refused) {
				t.Fatalf("%q: %v", material, err)
			}
			return
		}
		if again, err := importKey([]byte(key.PublicKey)); err != nil || again.PublicKey != key.PublicKey ||
			again.Fingerprint != key.Fingerprint ||
			strings.ContainsAny(key.PublicKey, "\r\n") {
			t.Fatalf("%q is imported as %q, and that as %q: %v", material, key.PublicKey, again.PublicKey, err)
		}
	})
}

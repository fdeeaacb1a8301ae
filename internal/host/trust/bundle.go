package trust

import (
	"bytes"
	"encoding/pem"
	"os"
	"strings"

	"github.com/coracle-eks/coracle/internal/durable"
)

// rootFiles are the files in which distributions have all certificates that they trust; those that Go reads.
var rootFiles = []string{
	"/etc/ssl/certs/ca-certificates.crt",                // Debian, Ubuntu, Arch Linux, Alpine
	"/etc/pki/tls/certs/ca-bundle.crt",                  // Fedora, RHEL
	"/etc/ssl/ca-bundle.pem",                            // SUSE
	"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", // RHEL 7
	"/etc/ssl/cert.pem",                                 // Alpine, macOS
}

// A bundle begins with these lines. The second names the file whose certificates are in it beside those of daemons.
const (
	bundleTitle = "# Certificate authorities for programs that use Coracle. \"coracle env\" and the daemon write it.\n"
	basePrefix  = "# From: "
)

// WriteBundle writes the certificates that programs trust without Coracle, and those of authorities, to a file. Without
// Coracle they trust what the file in configured has (SSL_CERT_FILE; optional), otherwise what the system does. Where
// configured names a bundle of any daemon, and where it is empty and the bundle is there already, what was chosen
// before is kept.
func WriteBundle(file, configured string, authorities ...[]byte) error {
	base, roots := readRoots(file, configured)
	text := bytes.NewBufferString(bundleTitle + basePrefix + base + "\n")
	present := map[string]bool{}
	for _, some := range append([][]byte{roots}, authorities...) {
		for {
			var block *pem.Block
			if block, some = pem.Decode(some); block == nil {
				break
			}
			if block.Type != "CERTIFICATE" || present[string(block.Bytes)] {
				continue
			}
			present[string(block.Bytes)] = true
			block.Headers = nil
			if err := pem.Encode(text, block); err != nil {
				return err
			}
		}
	}
	return durable.EnsureFile(file, text.Bytes(), 0o600)
}

// readRoots returns what programs trust without Coracle, and the file that says it: empty where there is none.
func readRoots(file, configured string) (base string, roots []byte) {
	if configured == "" {
		configured = file
	}
	if chosen, ok := baseOf(configured); ok {
		configured = chosen
	}
	if configured != file {
		// It may be the bundle of a daemon that has been removed: then the system's roots are the best there is.
		if roots, err := os.ReadFile(configured); err == nil {
			return configured, roots
		}
	}
	for _, f := range rootFiles {
		if roots, err := os.ReadFile(f); err == nil {
			return f, roots
		}
	}
	return "", nil
}

// baseOf returns the file whose certificates are in a bundle; false where the file is no bundle of Coracle.
func baseOf(file string) (string, bool) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", false
	}
	rest, ok := strings.CutPrefix(string(text), bundleTitle+basePrefix)
	if !ok {
		return "", false
	}
	base, _, _ := strings.Cut(rest, "\n")
	return base, true
}

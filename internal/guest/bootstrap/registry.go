package bootstrap

import (
	"fmt"
	"io"
	"strings"

	"github.com/coracle-eks/coracle/internal/amazonaccount"
)

// registry returns the registry of the EKS images of a region. Regions without an account of their own use the one that
// most regions share: this host serves its registry for any region.
func registry(region, domain, account string) string {
	if account == "" {
		account = amazonaccount.Registry(region)
	}
	return account + ".dkr.ecr." + region + "." + domain
}

// ECRURI runs the program get-ecr-uri.sh.
func ECRURI(args []string, stdout, stderr io.Writer) int {
	if len(args) != 2 && len(args) != 3 {
		fmt.Fprintln(stderr, "usage: get-ecr-uri.sh REGION DOMAIN [ACCOUNT]")
		return 1
	}
	fmt.Fprintln(stdout, registry(args[0], args[1], strings.Join(args[2:], "")))
	return 0
}

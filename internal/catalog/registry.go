package catalog

import (
	"strings"

	"github.com/coracle-eks/coracle/internal/amazonaccount"
)

// Registry returns the registry of EKS's own images in a region: "602401143452.dkr.ecr.eu-west-1.amazonaws.com".
func Registry(region string) string {
	host := amazonaccount.Registry(region) + ".dkr.ecr." + region + ".amazonaws.com"
	if strings.HasPrefix(region, "cn-") {
		host += ".cn"
	}
	return host
}

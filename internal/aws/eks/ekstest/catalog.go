package ekstest

import (
	"slices"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/catalog"
)

// Catalog is EKS's catalog with three add-ons of Acme: one with service accounts, one that has to be configured,
// and one of the past.
type Catalog struct{ *catalog.Catalog }

// OpenCatalog opens the catalog, once for all tests.
var OpenCatalog = sync.OnceValues(func() (Catalog, error) {
	c, err := catalog.Open(catalog.Options{})
	return Catalog{c}, err
})

// Addons returns the add-ons by name.
func (s Catalog) Addons() []catalog.Addon {
	all := s.Catalog.Addons()
	for _, name := range []string{"acme_old", "acme_storage", "acme_strict"} {
		a, _ := s.Addon(name)
		all = append(all, a)
	}
	slices.SortFunc(all, func(a, b catalog.Addon) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// Addon returns the add-on of that name.
func (s Catalog) Addon(name string) (catalog.Addon, bool) {
	if !strings.HasPrefix(name, "acme_") {
		return s.Catalog.Addon(name)
	}
	a, _ := s.Catalog.Addon("coredns")
	a.Name, a.Versions = name, slices.Clone(a.Versions)
	a.Type, a.Publisher, a.Owner, a.DefaultNamespace = "storage", "acme", "aws-marketplace", "acme"
	a.Marketplace = &types.MarketplaceInformation{
		ProductId:  aws.String("prod-1"),
		ProductUrl: aws.String("https://acme.example/storage"),
	}
	for i := range a.Versions {
		v := &a.Versions[i]
		v.Addon = name
		switch name {
		case "acme_storage":
			policy := "arn:aws:iam::aws:policy/service-role/AmazonEBSCSIDriverPolicy"
			v.RequiresIAMPermissions = true
			v.Identities = []catalog.Identity{
				{ServiceAccount: "controller", ManagedPolicies: []string{policy}, PodIdentity: true},
				{ServiceAccount: "node", PodIdentity: true},
				{ServiceAccount: "legacy"},
			}
		case "acme_strict", "acme_stricter":
			v.RequiresConfiguration = true
		case "acme_old":
			v.Compatibilities = []catalog.Compatibility{{Minor: "1.33", Default: i == 0}}
		default:
			return catalog.Addon{}, false
		}
	}
	return a, true
}

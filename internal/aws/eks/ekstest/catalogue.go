package ekstest

import (
	"slices"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/catalogue"
)

// Catalogue is EKS's catalogue with three add-ons of Acme: one with service accounts, one that has to be configured,
// and one of the past.
type Catalogue struct{ *catalogue.Catalogue }

// OpenCatalogue opens the catalogue, once for all tests.
var OpenCatalogue = sync.OnceValues(func() (Catalogue, error) {
	c, err := catalogue.Open(catalogue.Options{})
	return Catalogue{c}, err
})

// Addons returns the add-ons by name.
func (s Catalogue) Addons() []catalogue.Addon {
	all := s.Catalogue.Addons()
	for _, name := range []string{"acme_old", "acme_storage", "acme_strict"} {
		a, _ := s.Addon(name)
		all = append(all, a)
	}
	slices.SortFunc(all, func(a, b catalogue.Addon) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// Addon returns the add-on of that name.
func (s Catalogue) Addon(name string) (catalogue.Addon, bool) {
	if !strings.HasPrefix(name, "acme_") {
		return s.Catalogue.Addon(name)
	}
	a, _ := s.Catalogue.Addon("coredns")
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
			v.Identities = []catalogue.Identity{
				{ServiceAccount: "controller", ManagedPolicies: []string{policy}, PodIdentity: true},
				{ServiceAccount: "node", PodIdentity: true},
				{ServiceAccount: "legacy"},
			}
		case "acme_strict", "acme_stricter":
			v.RequiresConfiguration = true
		case "acme_old":
			v.Compatibilities = []catalogue.Compatibility{{Minor: "1.33", Default: i == 0}}
		default:
			return catalogue.Addon{}, false
		}
	}
	return a, true
}

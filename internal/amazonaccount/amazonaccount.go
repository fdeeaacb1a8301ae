// Package amazonaccount lists the AWS accounts that belong to Amazon: public data.
//
// Images that all accounts pull, machine images and network interfaces of API servers have them for their owner, so
// nobody else may have one: a daemon makes no such account, and accepts no credentials of one that an earlier version
// made.
package amazonaccount

import "cmp"

const (
	// EKS owns the repositories of the images that EKS itself uses, in most regions, the machine images of EKS, and the
	// roles of its managers.
	EKS = "602401143452"
	// APIServers is the account in which the API servers of clusters run. It owns their network interfaces.
	APIServers = "305882430652"
	// Bottlerocket owns the machine images of Bottlerocket.
	Bottlerocket = "092701018921"
	// AmazonLinux owns the machine images of Amazon Linux.
	AmazonLinux = "137112412989"
)

// registries are the owners of EKS's repositories in the other regions.
// https://docs.aws.amazon.com/eks/latest/userguide/add-ons-images.html
var registries = map[string]string{
	"af-south-1":     "877085696533",
	"ap-east-1":      "800184023465",
	"ap-east-2":      "533267051163",
	"ap-south-2":     "900889452093",
	"ap-southeast-3": "296578399912",
	"ap-southeast-4": "491585149902",
	"ap-southeast-5": "151610086707",
	"ap-southeast-6": "333609536671",
	"ap-southeast-7": "121268973566",
	"ca-west-1":      "761377655185",
	"cn-north-1":     "918309763551",
	"cn-northwest-1": "961992271922",
	"eu-central-2":   "900612956339",
	"eu-south-1":     "590381155156",
	"eu-south-2":     "455263428931",
	"il-central-1":   "066635153087",
	"me-central-1":   "759879836304",
	"me-south-1":     "558608220178",
	"mx-central-1":   "730335286997",
	"us-gov-east-1":  "151742754352",
	"us-gov-west-1":  "013241004608",
}

// Registry returns the owner of EKS's repositories in a region.
func Registry(region string) string { return cmp.Or(registries[region], EKS) }

// OwnsRegistry reports whether an account owns EKS's repositories in some region.
func OwnsRegistry(account string) bool {
	if account == EKS {
		return true
	}
	for _, a := range registries {
		if a == account {
			return true
		}
	}
	return false
}

// Is reports whether an account is one of Amazon's.
func Is(account string) bool {
	switch account {
	case APIServers, Bottlerocket, AmazonLinux:
		return true
	}
	return OwnsRegistry(account)
}

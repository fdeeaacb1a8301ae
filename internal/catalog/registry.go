package catalog

import (
	"cmp"
	"strings"
)

// EKSAccount owns the repositories of the images that EKS itself uses, in most regions.
const EKSAccount = "602401143452"

// eksAccounts are those of the other regions.
// https://docs.aws.amazon.com/eks/latest/userguide/add-ons-images.html
var eksAccounts = map[string]string{
	"af-south-1":     "877085696533",
	"ap-east-1":      "800184023465",
	"ap-south-2":     "900889452093",
	"ap-southeast-3": "296578399912",
	"ap-southeast-4": "491585149902",
	"ca-west-1":      "761377655185",
	"cn-north-1":     "918309763551",
	"cn-northwest-1": "961992271922",
	"eu-central-2":   "900612956339",
	"eu-south-1":     "590381155156",
	"eu-south-2":     "455263428931",
	"il-central-1":   "066635153087",
	"me-central-1":   "759879836304",
	"me-south-1":     "558608220178",
	"us-gov-east-1":  "151742754352",
	"us-gov-west-1":  "013241004608",
}

// Registry returns the registry of EKS's own images in a region: "602401143452.dkr.ecr.eu-west-1.amazonaws.com".
func Registry(region string) string {
	host := cmp.Or(eksAccounts[region], EKSAccount) + ".dkr.ecr." + region + ".amazonaws.com"
	if strings.HasPrefix(region, "cn-") {
		host += ".cn"
	}
	return host
}

// OfEKS reports whether an account's registry holds EKS's own images.
func OfEKS(account string) bool {
	if account == EKSAccount {
		return true
	}
	for _, a := range eksAccounts {
		if a == account {
			return true
		}
	}
	return false
}

package bootstrap

import (
	"fmt"
	"io"
	"strings"
)

// accounts are the registries of the EKS images in regions that have one of their own.
// https://docs.aws.amazon.com/eks/latest/userguide/add-ons-images.html
var accounts = map[string]string{
	"af-south-1": "877085696533", "ap-east-1": "800184023465", "ap-east-2": "533267051163",
	"ap-south-2": "900889452093", "ap-southeast-3": "296578399912", "ap-southeast-4": "491585149902",
	"ap-southeast-5": "151610086707", "ap-southeast-6": "333609536671", "ap-southeast-7": "121268973566",
	"ca-west-1": "761377655185", "cn-north-1": "918309763551", "cn-northwest-1": "961992271922",
	"eu-central-2": "900612956339", "eu-south-1": "590381155156", "eu-south-2": "455263428931",
	"il-central-1": "066635153087", "me-central-1": "759879836304", "me-south-1": "558608220178",
	"mx-central-1": "730335286997", "us-gov-east-1": "151742754352", "us-gov-west-1": "013241004608",
}

// registry returns the registry of the EKS images of a region. Regions without an account of their own use the one that
// most regions share: this host serves its registry for any region.
func registry(region, domain, account string) string {
	if account == "" {
		if account = accounts[region]; account == "" {
			account = "602401143452"
		}
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

package endpoint

import (
	"regexp"
	"slices"
	"strings"

	"github.com/coracle-eks/coracle/internal/s3name"
)

var regionLabel = regexp.MustCompile(`^[a-z]{2,4}(-[a-z]+)+-\d+$`)

// apiDomains are those in which AWS's APIs have their names: https://docs.aws.amazon.com/general/latest/gr/rande.html.
// In the last one are the dual-stack names of ECR's registries alone.
var apiDomains = []string{"amazonaws.com", "amazonaws.com.cn", "api.aws", "on.aws"}

// labelsBeforeService are the labels that may stand before a service's own in the name of one of its endpoints; "*" is
// an account.
var labelsBeforeService = map[string][]string{
	"ecr":                  {"api", "dkr", "*.dkr"},
	"ecr-fips":             {"*.dkr"},
	"dkr-ecr":              {"*"},
	"dkr-ecr-fips":         {"*"},
	"ecr-public":           {"api"},
	"eks":                  {"oidc", "fips"},
	"pricing":              {"api"},
	"dynamodb":             {"streams"},
	"tagging":              {"resource-groups"},
	"sagemaker":            {"api", "runtime"},
	"elasticloadbalancing": {"fips"},
}

// isAPIName reports whether a name (lower case, no dot at the end) is that of an AWS API: SERVICE.REGION.amazonaws.com,
// SERVICE-fips.REGION.amazonaws.com, SERVICE.REGION.api.aws, SERVICE.amazonaws.com for the global ones, and those with
// something before the service, of which the one of the public keys of load balancers is served, too. S3 is not among
// them, because so much else is downloaded from there, but for CloudFormation's bucket of wait conditions; nor are the
// names of what belongs to a customer, such as load balancers, databases and instances.
func isAPIName(name string) bool {
	for _, domain := range apiDomains {
		rest, ok := strings.CutSuffix(name, "."+domain)
		if !ok {
			continue
		}
		labels := strings.Split(rest, ".")
		last := len(labels) - 1
		if regionLabel.MatchString(labels[last]) || labels[last] == "global" {
			labels = labels[:last]
		} else if last > 0 {
			return false // without a region there are global services only, in one label
		}
		if len(labels) == 0 {
			return false
		}
		service, head := labels[len(labels)-1], strings.Join(labels[:len(labels)-1], ".")
		switch {
		case service == "elb" && head == "public-keys.auth":
			return true
		case service == "s3" && strings.HasPrefix(head, "cloudformation-waitcondition-"):
			return true
		case service == "" || service == "s3" || strings.HasPrefix(service, "s3-") || service == "compute" ||
			service == "elb":
			return false
		case head == "":
			return domain != "on.aws"
		}
		if number, after, _ := strings.Cut(head, "."); isAccount(number) {
			head = strings.TrimSuffix("*."+after, ".")
		}
		return slices.Contains(labelsBeforeService[service], head)
	}
	return false
}

// isS3Name reports whether a name is that of an endpoint of S3, or of a bucket at one.
func isS3Name(name string) bool {
	_, ok := s3name.ParseHost(name)
	return ok
}

func isAccount(s string) bool { return len(s) == 12 && strings.Trim(s, "0123456789") == "" }

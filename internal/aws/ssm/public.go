package ssm

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ssm/types"

	"github.com/coracle-eks/coracle/internal/ami"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/region"
)

// publicSince is the time when the public parameters were last modified: that of the newest images.
var publicSince = time.Date(2026, time.November, 5, 12, 0, 0, 0, time.UTC)

func isPublic(name string) bool { return strings.HasPrefix(name, "/aws/") }

// publicParameters are the public parameters of a region, by name, and their names in order.
type publicParameters struct {
	values map[string]string
	names  []string
}

var (
	publicMutex sync.Mutex
	publicOf    = make(map[string]publicParameters)
)

// publicForRegion returns the parameters that AWS publishes in a region: the images of nodes, and the list of regions
// and zones. https://docs.aws.amazon.com/systems-manager/latest/userguide/parameter-store-public-parameters.html
func publicForRegion(in string) publicParameters {
	publicMutex.Lock()
	defer publicMutex.Unlock()
	if p, ok := publicOf[in]; ok {
		return p
	}
	values := ami.Parameters(in)
	const infrastructure = "/aws/service/global-infrastructure"
	for _, code := range region.Codes() {
		r, _ := region.Get(code)
		at := infrastructure + "/regions/" + code
		values[at] = code
		values[at+"/longName"] = r.Name
		values[at+"/domain"] = "amazonaws.com"
		values[at+"/partition"] = "aws"
		for _, zone := range r.Zones {
			id := zone.ID // names differ between accounts, so AWS publishes the IDs alone
			values[at+"/availability-zones/"+id] = id
			values[infrastructure+"/availability-zones/"+id] = id
			values[infrastructure+"/availability-zones/"+id+"/parent-region"] = code
			values[infrastructure+"/availability-zones/"+id+"/group"] = code
		}
	}
	for code, name := range map[string]string{
		"autoscaling": "Amazon EC2 Auto Scaling", "ec2": "Amazon Elastic Compute Cloud (EC2)",
		"ecr": "Amazon Elastic Container Registry (ECR)",
		"eks": "Amazon Elastic Kubernetes Service (EKS)", "iam": "AWS Identity and Access Management (IAM)",
		"logs": "Amazon CloudWatch Logs",
		"ssm":  "AWS Systems Manager", "sts": "AWS Security Token Service (STS)",
	} {
		at := infrastructure + "/services/" + code
		values[at], values[at+"/longName"] = code, name
		for _, r := range region.Codes() {
			values[at+"/regions/"+r] = r
			values[infrastructure+"/regions/"+r+"/services/"+code] = code
		}
	}
	p := publicParameters{values: values, names: slices.Sorted(maps.Keys(values))}
	publicOf[in] = p
	return p
}

// publicParameter returns a public parameter as GetParameter shows it.
func publicParameter(region string, r reference) (types.Parameter, error) {
	value, ok := publicForRegion(region).values[r.name]
	switch {
	case !ok && !strings.HasPrefix(r.name, "/aws/service/"):
		return types.Parameter{}, &wire.Error{Code: "AccessDeniedException",
			Message: "No access to reserved parameter name: " + r.name + "."}
	case !ok:
		return types.Parameter{}, notFound()
	case r.selector != "" && r.selector != "1":
		return types.Parameter{}, versionNotFound(r.name, r.selector)
	}
	shown := types.Parameter{
		ARN: new(record.ParameterARN("", region, r.name)), DataType: new("text"), LastModifiedDate: new(publicSince),
		Name: new(r.name), Type: types.ParameterTypeString, Value: new(value), Version: 1,
	}
	if strings.HasPrefix(value, "ami-") {
		shown.DataType = new("aws:ec2:image")
	}
	if r.selector != "" {
		shown.Selector = new(":" + r.selector)
	}
	return shown, nil
}

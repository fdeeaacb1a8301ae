package offering

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/ec2/resource"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/instancetype"
)

// Requirements choose instance types by what they have.
// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_InstanceRequirementsRequest.html
type Requirements struct {
	asked types.InstanceRequirementsRequest
	tests []func(instancetype.Type) bool
}

// between adds that a number lies between two bounds, either of which may be open.
func between[N int32 | float64](r *Requirements, name string, least, most *N, of func(instancetype.Type) N) error {
	if least != nil && *least < 0 || most != nil && *most < 0 {
		return resource.Invalid("The minimum and maximum of %s must not be negative.", name)
	}
	if least != nil && most != nil && *least > *most {
		return resource.Invalid("The minimum of %s, %v, is greater than the maximum, %v.", name, *least, *most)
	}
	r.tests = append(r.tests, func(t instancetype.Type) bool {
		n := of(t)
		return (least == nil || n >= *least) && (most == nil || n <= *most)
	})
	return nil
}

// addRequirement adds that types with some quality are included, excluded or required; the default is excluded.
func addRequirement(r *Requirements, name, wish, usual string, has func(instancetype.Type) bool) error {
	switch wish = cmp.Or(wish, usual); wish {
	case "included":
	case "required", "excluded":
		r.tests = append(r.tests, func(t instancetype.Type) bool { return has(t) == (wish == "required") })
	default:
		return resource.InvalidValue(wish, name, "Valid values are included, excluded and required.")
	}
	return nil
}

// oneOfThem adds that a type has one of the values, if there are any.
func oneOfThem[T ~string](r *Requirements, wanted []T, of func(instancetype.Type) string) {
	if len(wanted) > 0 {
		r.tests = append(r.tests, func(t instancetype.Type) bool { return slices.Contains(wanted, T(of(t))) })
	}
}

// maxRequired is the maximum number of values in a list of requirements, and maxTypeName the maximum length of the
// pattern of an instance type.
// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_InstanceRequirementsRequest.html
const maxRequired, maxTypeName = 400, 30

// checkLists refuses lists that are too long, beside those that the model of the API bounds, and values that EC2 does
// not know.
func checkLists(q *types.InstanceRequirementsRequest) error {
	for _, pattern := range slices.Concat(q.AllowedInstanceTypes, q.ExcludedInstanceTypes) {
		if len(pattern) > maxTypeName {
			return resource.Invalid("The pattern of an instance type has %d characters, and may have %d.", len(pattern),
				maxTypeName)
		}
	}
	return cmp.Or(checkEnums("AcceleratorManufacturer", q.AcceleratorManufacturers),
		checkEnums("AcceleratorName", q.AcceleratorNames), checkEnums("AcceleratorType", q.AcceleratorTypes),
		checkEnums("CpuManufacturer", q.CpuManufacturers), checkEnums("InstanceGeneration", q.InstanceGenerations),
		checkEnums("LocalStorageType", q.LocalStorageTypes))
}

func checkEnums[T interface {
	~string
	Values() []T
}](name string, values []T) error {
	if len(values) > maxRequired {
		return resource.Invalid("%s has %d values, and may have %d.", name, len(values), maxRequired)
	}
	for _, v := range values {
		if err := resource.CheckEnum(v, name); err != nil {
			return err
		}
	}
	return nil
}

// ReadRequirements reads the requirements of a request.
func ReadRequirements(q *types.InstanceRequirementsRequest) (*Requirements, error) {
	r := &Requirements{asked: *q}
	if q.VCpuCount == nil || q.VCpuCount.Min == nil {
		return nil, resource.MissingParameter("InstanceRequirements.VCpuCount.Min")
	}
	if q.MemoryMiB == nil || q.MemoryMiB.Min == nil {
		return nil, resource.MissingParameter("InstanceRequirements.MemoryMiB.Min")
	}
	if len(q.AllowedInstanceTypes) > 0 && len(q.ExcludedInstanceTypes) > 0 {
		return nil, wire.Errorf("InvalidParameterCombination",
			"You can specify either AllowedInstanceTypes or ExcludedInstanceTypes, but not both.")
	}
	if err := checkLists(q); err != nil {
		return nil, err
	}
	if q.BaselinePerformanceFactors != nil {
		return nil, resource.Unsupported("BaselinePerformanceFactors")
	}
	n32 := func(of func(instancetype.Type) int) func(instancetype.Type) int32 {
		return func(t instancetype.Type) int32 { return int32(of(t)) }
	}
	errs := []error{
		between(r, "VCpuCount", q.VCpuCount.Min, q.VCpuCount.Max, n32(func(t instancetype.Type) int { return t.VCPU })),
		between(r, "MemoryMiB", q.MemoryMiB.Min, q.MemoryMiB.Max,
			n32(func(t instancetype.Type) int { return t.MemoryMiB })),
		addRequirement(r, "BareMetal", string(q.BareMetal), "excluded",
			func(t instancetype.Type) bool { return t.BareMetal }),
		addRequirement(r, "BurstablePerformance", string(q.BurstablePerformance), "excluded",
			func(t instancetype.Type) bool { return t.Burstable }),
		addRequirement(r, "LocalStorage", string(q.LocalStorage), "included",
			func(t instancetype.Type) bool { return t.LocalStorageGB > 0 }),
	}
	if b := q.AcceleratorCount; b != nil {
		errs = append(errs, between(r, "AcceleratorCount", b.Min, b.Max,
			n32(func(t instancetype.Type) int { return t.GPUs })))
	} else if len(q.AcceleratorTypes)+len(q.AcceleratorNames)+len(q.AcceleratorManufacturers) == 0 {
		r.tests = append(r.tests, func(t instancetype.Type) bool { return t.GPUs == 0 })
	}
	if b := q.AcceleratorTotalMemoryMiB; b != nil {
		errs = append(errs, between(r, "AcceleratorTotalMemoryMiB", b.Min, b.Max,
			n32(func(t instancetype.Type) int { return t.GPUs * t.GPUMemoryMiB })))
	}
	if b := q.MemoryGiBPerVCpu; b != nil {
		errs = append(errs, between(r, "MemoryGiBPerVCpu", b.Min, b.Max,
			func(t instancetype.Type) float64 { return float64(t.MemoryMiB) / 1024 / float64(t.VCPU) }))
	}
	if b := q.TotalLocalStorageGB; b != nil {
		errs = append(errs, between(r, "TotalLocalStorageGB", b.Min, b.Max,
			func(t instancetype.Type) float64 { return float64(t.LocalStorageGB) }))
	}
	if b := q.NetworkInterfaceCount; b != nil {
		errs = append(errs, between(r, "NetworkInterfaceCount", b.Min, b.Max,
			n32(func(t instancetype.Type) int { return t.MaxENIs })))
	}
	if b := q.NetworkBandwidthGbps; b != nil {
		errs = append(errs, between(r, "NetworkBandwidthGbps", b.Min, b.Max,
			func(t instancetype.Type) float64 { return float64(t.NetworkBaselineMbps) / 1000 }))
	}
	if b := q.BaselineEbsBandwidthMbps; b != nil {
		errs = append(errs, between(r, "BaselineEbsBandwidthMbps", b.Min, b.Max,
			n32(func(t instancetype.Type) int { return t.EBSBandwidthMbps })))
	}
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	oneOfThem(r, q.CpuManufacturers, func(t instancetype.Type) string {
		return map[string]string{"Intel": "intel", "AMD": "amd", "AWS": "amazon-web-services"}[t.Manufacturer]
	})
	oneOfThem(r, q.AcceleratorManufacturers,
		func(t instancetype.Type) string { return strings.ToLower(t.GPUManufacturer) })
	oneOfThem(r, q.AcceleratorNames, func(t instancetype.Type) string { return strings.ToLower(t.GPUName) })
	oneOfThem(r, q.AcceleratorTypes, func(t instancetype.Type) string {
		if t.GPUs > 0 {
			return "gpu"
		}
		return ""
	})
	oneOfThem(r, q.InstanceGenerations, func(t instancetype.Type) string {
		if t.CurrentGeneration {
			return "current"
		}
		return "previous"
	})
	if len(q.LocalStorageTypes) > 0 && !slices.Contains(q.LocalStorageTypes, types.LocalStorageTypeSsd) {
		r.tests = append(r.tests, func(t instancetype.Type) bool { return t.LocalStorageGB == 0 })
	}
	named := func(patterns []string) func(instancetype.Type) bool {
		return func(t instancetype.Type) bool {
			return slices.ContainsFunc(patterns, func(p string) bool { ok, _ := resource.MatchGlob(p, t.Name); return ok })
		}
	}
	if len(q.AllowedInstanceTypes) > 0 {
		r.tests = append(r.tests, named(q.AllowedInstanceTypes))
	}
	if len(q.ExcludedInstanceTypes) > 0 {
		excluded := named(q.ExcludedInstanceTypes)
		r.tests = append(r.tests, func(t instancetype.Type) bool { return !excluded(t) })
	}
	if aws.ToBool(q.RequireEncryptionInTransit) {
		r.tests = append(r.tests, func(t instancetype.Type) bool { return t.EncryptionInTransit })
	}
	if aws.ToBool(q.RequireHibernateSupport) {
		r.tests = append(r.tests, func(instancetype.Type) bool { return false })
	}
	return r, nil
}

// MatchingTypes returns the instance types of an architecture that meet the requirements and are not much dearer than
// the
// cheapest of them: by 20 percent on demand and 100 percent on the spot market, unless the requirements say otherwise.
func (r *Requirements) MatchingTypes(architecture string, spot bool) []instancetype.Type {
	fit := slices.DeleteFunc(instancetype.All(), func(t instancetype.Type) bool {
		return t.Architecture != architecture || slices.ContainsFunc(r.tests,
			func(passes func(instancetype.Type) bool) bool { return !passes(t) })
	})
	price, over := instancetype.Type.SpotUSD, int32(100)
	asked := r.asked.SpotMaxPricePercentageOverLowestPrice
	if !spot {
		price = func(t instancetype.Type) float64 { return t.OnDemandUSD }
		over, asked = 20, r.asked.OnDemandMaxPricePercentageOverLowestPrice
	}
	if asked != nil {
		over = *asked
	}
	slices.SortStableFunc(fit, func(a, b instancetype.Type) int {
		return cmp.Or(cmp.Compare(price(a), price(b)), cmp.Compare(a.Name, b.Name))
	})
	general := slices.IndexFunc(fit, func(t instancetype.Type) bool {
		return t.CurrentGeneration && strings.ContainsRune("cmr", rune(t.Name[0]))
	})
	if general < 0 || over >= 999999 {
		return fit
	}
	limit := price(fit[general]) * (1 + float64(over)/100)
	return slices.DeleteFunc(fit, func(t instancetype.Type) bool { return price(t) > limit })
}

// requirementsHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) requirementsHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.GetInstanceTypesFromInstanceRequirements, resource.OnRegion),
	}
}

// GetInstanceTypesFromInstanceRequirements lists the instance types that meet requirements.
func (s *Service) GetInstanceTypesFromInstanceRequirements(ctx context.Context,
	in *ec2.GetInstanceTypesFromInstanceRequirementsInput) (*ec2.GetInstanceTypesFromInstanceRequirementsOutput, error) {
	if in.InstanceRequirements == nil {
		return nil, resource.MissingParameter("InstanceRequirements")
	}
	r, err := ReadRequirements(in.InstanceRequirements)
	if err != nil {
		return nil, err
	}
	if len(in.ArchitectureTypes) == 0 {
		return nil, resource.MissingParameter("ArchitectureType")
	}
	for _, v := range in.VirtualizationTypes {
		if err := resource.CheckEnum(v, "VirtualizationType"); err != nil {
			return nil, err
		}
	}
	var items []resource.Item[types.InstanceTypeInfoFromInstanceRequirements]
	hvm := len(in.VirtualizationTypes) == 0 || slices.Contains(in.VirtualizationTypes, types.VirtualizationTypeHvm)
	seen := make(map[types.ArchitectureType]bool)
	for _, a := range in.ArchitectureTypes {
		if err := resource.CheckEnum(a, "ArchitectureType"); err != nil {
			return nil, err
		}
		if !hvm || seen[a] {
			continue
		}
		seen[a] = true
		for _, t := range r.MatchingTypes(string(a), false) {
			items = append(items, resource.Item[types.InstanceTypeInfoFromInstanceRequirements]{ID: t.Name,
				View: types.InstanceTypeInfoFromInstanceRequirements{InstanceType: aws.String(t.Name)}})
		}
	}
	slices.SortFunc(items, func(a, b resource.Item[types.InstanceTypeInfoFromInstanceRequirements]) int {
		return cmp.Compare(
			a.ID, b.ID)
	})
	found, next, err := resource.DescribeItems(
		ctx,
		resource.Query{Operation: "GetInstanceTypesFromInstanceRequirements", DryRun: in.DryRun, Max: in.MaxResults,
			Token: in.NextToken},
		items,
		nil,
		nil,
	)
	if found == nil {
		found = []types.InstanceTypeInfoFromInstanceRequirements{}
	}
	return &ec2.GetInstanceTypesFromInstanceRequirementsOutput{InstanceTypes: found, NextToken: next}, err
}

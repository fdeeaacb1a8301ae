package instance

import (
	"fmt"
	"slices"
)

// origin has what a launch template and the request that names it say, as mergeTemplate merges them.
type origin struct{ template, request map[string]any }

// isTemplates reports whether a member of the merged request is the launch template's: the template sets it, and the
// request does not, not even to the same value. In a list that mergedBy has, the name of the list is followed by the
// key of an element.
//
// What this says is ec2:IsLaunchTemplateResource, by which policies keep users from overriding a launch template.
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ExamplePolicies_EC2.html#iam-example-runinstances-launch-templates
func (o origin) isTemplates(path ...string) bool {
	return sets(o.template, path) && !sets(o.request, path)
}

// isTemplatesSubnet is isTemplates for the subnet of a network interface. With the primary one, a subnet beside all
// interfaces is merged (readInterfaces).
func (o origin) isTemplatesSubnet(deviceIndex int32) bool {
	return o.isTemplates("NetworkInterfaces", indexKey(deviceIndex), "SubnetId") &&
		(deviceIndex != 0 || !sets(o.request, []string{"SubnetId"}))
}

// sets reports whether a value has a member that mergeParameters would merge into others.
func sets(value any, path []string) bool {
	if len(path) == 0 {
		switch value := value.(type) {
		case nil:
			return false
		case string:
			return value != ""
		case []any:
			return len(value) > 0
		}
		return true
	}
	members, _ := value.(map[string]any)
	member := members[path[0]]
	list, isList := member.([]any)
	by := mergedBy[path[0]]
	if !isList || by == "" || len(path) == 1 {
		return sets(member, path[1:])
	}
	return slices.ContainsFunc(list, func(element any) bool {
		return elementKey(element, by) == path[1] && sets(element, path[2:])
	})
}

// elementKey returns the member by which an element of a list is the same as one of another list.
func elementKey(element any, by string) string { return fmt.Sprint(element.(map[string]any)[by]) }

// indexKey returns the elementKey of a network interface: numbers of JSON are floats.
func indexKey(deviceIndex int32) string { return fmt.Sprint(float64(deviceIndex)) }

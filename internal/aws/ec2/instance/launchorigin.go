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
// What this and the overrides below say is ec2:IsLaunchTemplateResource, by which policies keep users from overriding
// a launch template.
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

// ofPrimaryInterface are the members of a request about its primary network interface.
var ofPrimaryInterface = []string{"SubnetId", "SecurityGroupIds", "SecurityGroups", "PrivateIpAddress",
	"Ipv6Addresses", "Ipv6AddressCount", "EnablePrimaryIpv6"}

// besideInstance are the members of a request, with those of ofPrimaryInterface, that are not about the instance
// itself: they say how the request is carried out, or are about something that has a target of its own. Tags have
// conditions of their own, and a permission (ec2:CreateTags).
var besideInstance = []string{"LaunchTemplate", "MinCount", "MaxCount", "ClientToken", "DryRun", "TagSpecifications",
	"ImageId", "KeyName", "NetworkInterfaces", "BlockDeviceMappings", "InstanceMarketOptions"}

// overridesInstance reports whether the request says something about the instance: its type, user data, metadata
// options and the like, also where the launch template says nothing.
func (o origin) overridesInstance() bool {
	for name, value := range o.request {
		if name == "Placement" {
			placement, _ := value.(map[string]any)
			for member, value := range placement {
				if member != "GroupName" && member != "GroupId" && sets(value, nil) {
					return true
				}
			}
			continue
		}
		if sets(value, nil) && !slices.Contains(besideInstance, name) && !slices.Contains(ofPrimaryInterface, name) {
			return true
		}
	}
	return false
}

// overridesInterface reports whether the request says something about the network interface that is made with a device
// index.
func (o origin) overridesInterface(deviceIndex int32) bool {
	return sets(o.request, []string{"NetworkInterfaces", indexKey(deviceIndex)}) || deviceIndex == 0 &&
		slices.ContainsFunc(ofPrimaryInterface, func(name string) bool { return sets(o.request, []string{name}) })
}

// overridesVolume reports whether the request says something about the volume that is made for a device.
func (o origin) overridesVolume(device string) bool {
	return sets(o.request, []string{"BlockDeviceMappings", device})
}

// devices returns the names of the block devices that the request maps.
func (o origin) devices() (names []string) {
	list, _ := o.request["BlockDeviceMappings"].([]any)
	for _, element := range list {
		names = append(names, elementKey(element, "DeviceName"))
	}
	return names
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

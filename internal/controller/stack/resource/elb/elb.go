// Package elb has the handlers of the CloudFormation resource types of Elastic Load Balancing: those of Application and
// Network Load Balancers, AWS::ElasticLoadBalancingV2::*, and AWS::ElasticLoadBalancing::LoadBalancer. Each is a client
// of Elastic Load Balancing, signed as the caller or as the service role of the stack.
//
// What an earlier call has made is found by its name or its place (a listener is one of its load balancer), and known
// by its tags. A setting that a template says no more gets its default again.
//
// https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/AWS_ElasticLoadBalancingV2.html
// https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/AWS_ElasticLoadBalancing.html
package elb

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	v2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"github.com/coracle-eks/coracle/internal/controller/stack/resource"
)

// nameLimit is the longest name of load balancers and target groups.
const nameLimit = 32

// Types are the resource types of Elastic Load Balancing. Trust stores are not served.
var Types = map[string]resource.Type{
	"AWS::ElasticLoadBalancing::LoadBalancer": {
		Handler: classicBalancers, NameLimit: nameLimit, Names: []string{"LoadBalancerName"}, Tagged: true,
		Refused: []string{"AccessLoggingPolicy", "AppCookieStickinessPolicy", "LBCookieStickinessPolicy"},
	},
	"AWS::ElasticLoadBalancingV2::Listener":            {Handler: listeners, Tagged: true},
	"AWS::ElasticLoadBalancingV2::ListenerCertificate": {Handler: listenerCertificates, NameLimit: 255},
	"AWS::ElasticLoadBalancingV2::ListenerRule":        {Handler: listenerRules, Tagged: true},
	"AWS::ElasticLoadBalancingV2::LoadBalancer": {
		Handler: loadBalancers, NameLimit: nameLimit, Names: []string{"Name"}, Tagged: true,
		Refused: []string{"EnableCapacityReservationProvisionStabilize", "EnablePrefixForIpv6SourceNat",
			"EnforceSecurityGroupInboundRulesOnPrivateLinkTraffic", "Ipv4IpamPoolId", "MinimumLoadBalancerCapacity"},
	},
	"AWS::ElasticLoadBalancingV2::TargetGroup": {
		Handler: targetGroups, NameLimit: nameLimit, Names: []string{"Name"}, Tagged: true,
		Refused: []string{"TargetControlPort"}, Volatile: []string{"LoadBalancerArns"},
	},
}

func newClient(c aws.Config) *v2.Client { return v2.NewFromConfig(c) }

func newTag(key, value string) types.Tag { return types.Tag{Key: &key, Value: &value} }

// nameOf returns the name that a resource has or will have.
func nameOf(r *resource.Request, property string) string {
	if name := r.Text(property); name != "" {
		return name
	}
	return r.Name
}

// fullName returns the part of an ARN by which metrics know a resource: "app/web/50dc6c495c0c9188".
func fullName(arn, kind string) string {
	_, path, _ := strings.Cut(arn, ":"+kind)
	return strings.TrimPrefix(path, "/")
}

// maxDescribed is how many resources a DescribeTags names.
const maxDescribed = 20

// findOwned returns the one of several ARNs whose tags are those of the resource of the request.
func findOwned(ctx context.Context, c *v2.Client, r *resource.Request, arns []string) (string, error) {
	arns = slices.DeleteFunc(arns, func(arn string) bool { return slices.Contains(r.Replaced, arn) })
	for some := range slices.Chunk(arns, maxDescribed) {
		out, err := c.DescribeTags(ctx, &v2.DescribeTagsInput{ResourceArns: some})
		if err != nil {
			return "", err
		}
		for _, d := range out.TagDescriptions {
			if r.Owns(tagMap(d.Tags)) {
				return aws.ToString(d.ResourceArn), nil
			}
		}
	}
	return "", resource.ErrNotFound
}

func tagMap(list []types.Tag) map[string]string {
	tags := make(map[string]string, len(list))
	for _, t := range list {
		tags[aws.ToString(t.Key)] = aws.ToString(t.Value)
	}
	return tags
}

// putTags adds the tags that a property of the resource would have to its properties.
func putTags(ctx context.Context, c *v2.Client, r *resource.Request, properties map[string]any) error {
	out, err := c.DescribeTags(ctx, &v2.DescribeTagsInput{ResourceArns: []string{r.PhysicalID}})
	if err != nil {
		return err
	}
	delete(properties, "Tags")
	for _, d := range out.TagDescriptions {
		if own := resource.TagObjects(r.LiveTags("Tags", tagMap(d.Tags))); own != nil {
			properties["Tags"] = own
		}
	}
	return nil
}

// setTags is the step that tags a resource, whose physical ID is its ARN.
var setTags = resource.Step[*v2.Client]{
	Properties: []string{"Tags"}, Tags: true,
	Run: func(ctx context.Context, c *v2.Client, r *resource.Request) error {
		set, removed := r.TagChanges("Tags")
		if len(removed) > 0 {
			if _, err := c.RemoveTags(ctx, &v2.RemoveTagsInput{ResourceArns: []string{r.PhysicalID},
				TagKeys: removed}); err != nil {
				return err
			}
		}
		if len(set) == 0 {
			return nil
		}
		_, err := c.AddTags(ctx, &v2.AddTagsInput{ResourceArns: []string{r.PhysicalID},
			Tags: resource.TagList(set, newTag)})
		return err
	},
}

// maxAttributes is how many attributes a request changes.
const maxAttributes = 20

// attributesOf returns the attributes in a list property, by their keys.
func attributesOf(list any) map[string]string {
	attributes := map[string]string{}
	for _, a := range resource.Objects(list) {
		attributes[resource.Text(a["Key"])] = resource.Text(a["Value"])
	}
	return attributes
}

// attributeChanges returns the attributes that a request sets, sorted by their keys: those of a property, and the
// defaults of those that an update leaves out.
func attributeChanges[A any](r *resource.Request, property string, defaults map[string]string,
	attribute func(key, value string) A) []A {
	wanted, had := attributesOf(r.Properties[property]), attributesOf(r.Previous[property])
	for key := range had {
		value, known := defaults[key]
		if _, stays := wanted[key]; !stays && known {
			wanted[key] = value
		}
	}
	return resource.TagList(wanted, attribute)
}

// attributeObjects returns those live attributes that a property of the resource names, as the property has them.
func attributeObjects[A any](r *resource.Request, property string, live []A,
	pair func(A) (key, value *string)) any {
	named := attributesOf(r.Properties[property])
	all := map[string]string{}
	for _, a := range live {
		key, value := pair(a)
		if _, ok := named[aws.ToString(key)]; ok {
			all[aws.ToString(key)] = aws.ToString(value)
		}
	}
	var list []any
	for _, object := range resource.Objects(r.Properties[property]) { // in the order of the template
		if value, ok := all[resource.Text(object["Key"])]; ok {
			list = append(list, map[string]any{"Key": object["Key"], "Value": value})
		}
	}
	if list == nil {
		return nil
	}
	return list
}

// likeTemplate returns what is live in the form of what a template says, so that only what differs is different: it has
// the members that the template has, as services add defaults to what they are given. Lists are compared element by
// element.
func likeTemplate(live, template any) any {
	switch template := template.(type) {
	case map[string]any:
		object, ok := live.(map[string]any)
		if !ok {
			return live
		}
		like := map[string]any{}
		for name, value := range template {
			if actual, known := object[name]; known {
				like[name] = likeTemplate(actual, value)
			}
		}
		return like
	case []any:
		list, ok := live.([]any)
		if !ok || len(list) != len(template) {
			return live
		}
		like := make([]any, len(list))
		for i := range list {
			like[i] = likeTemplate(list[i], template[i])
		}
		return like
	}
	return live
}

// inOrder returns a list in the order in which a template has its elements; what the template does not have comes last.
func inOrder(live []string, template []string) []any {
	list := []any{}
	for _, text := range template {
		if slices.Contains(live, text) {
			list = append(list, text)
		}
	}
	for _, text := range live {
		if !slices.Contains(template, text) {
			list = append(list, text)
		}
	}
	return list
}

// number returns a number as properties have it.
func number(n int32) json.Number { return json.Number(strconv.Itoa(int(n))) }

// defaultGroup returns the security group that load balancers in a VPC have unless they are given others.
func defaultGroup(ctx context.Context, r *resource.Request, vpc *string) ([]string, error) {
	out, err := ec2.NewFromConfig(r.Config).DescribeSecurityGroups(ctx, &ec2.DescribeSecurityGroupsInput{
		Filters: []ec2types.Filter{{Name: aws.String("vpc-id"), Values: []string{aws.ToString(vpc)}},
			{Name: aws.String("group-name"), Values: []string{"default"}}},
	})
	if err != nil {
		return nil, err
	}
	if len(out.SecurityGroups) == 0 {
		return nil, resource.Errorf(resource.InvalidRequest, "VPC %s has no default security group", aws.ToString(vpc))
	}
	return []string{aws.ToString(out.SecurityGroups[0].GroupId)}, nil
}

// without returns properties without some of them.
func without(properties map[string]any, names ...string) map[string]any {
	maps.DeleteFunc(properties, func(name string, _ any) bool { return slices.Contains(names, name) })
	return properties
}

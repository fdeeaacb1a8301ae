// Package iam has the handlers of the CloudFormation resource types of AWS Identity and Access Management: AWS::IAM::*.
// Each is a client of IAM, signed as the caller or as the service role of the stack.
//
// Roles, users and groups have policies in common (entity.go). Resources without tags, by which a handler recognizes
// what an earlier call made, claim their custom name first (see [resource.Claim]); generated names are nobody else's.
//
// https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/AWS_IAM.html
package iam

import (
	"net/url"
	"reflect"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/iam/types"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/coracle-eks/coracle/internal/controller/stack/resource"
)

// Types are the resource types of IAM.
var Types = map[string]resource.Type{
	"AWS::IAM::AccessKey":   {Handler: accessKeys{}, NameLimit: 128},
	"AWS::IAM::Group":       {Handler: groups, NameLimit: 128, Names: []string{"GroupName"}},
	"AWS::IAM::GroupPolicy": {Handler: entityPolicy(group, "GroupName")},
	"AWS::IAM::InstanceProfile": {
		Handler: instanceProfiles, NameLimit: 128, Names: []string{"InstanceProfileName"}, Tagged: true,
	},
	"AWS::IAM::ManagedPolicy": {
		Handler: managedPolicies, NameLimit: 128, Names: []string{"ManagedPolicyName"}, Tagged: true,
	},
	"AWS::IAM::OIDCProvider":      {Handler: oidcProviders, Tagged: true},
	"AWS::IAM::Policy":            {Handler: inlinePolicies{}, NameLimit: 128},
	"AWS::IAM::Role":              {Handler: roles, NameLimit: 64, Names: []string{"RoleName"}, Tagged: true},
	"AWS::IAM::RolePolicy":        {Handler: entityPolicy(role, "RoleName")},
	"AWS::IAM::ServiceLinkedRole": {Handler: serviceLinkedRoles{}, NameLimit: 128},
	"AWS::IAM::User": {
		Handler: users, NameLimit: 64, Names: []string{"UserName"}, Refused: []string{"LoginProfile"}, Tagged: true,
	},
	"AWS::IAM::UserPolicy":          {Handler: entityPolicy(user, "UserName")},
	"AWS::IAM::UserToGroupAddition": {Handler: memberships{}, NameLimit: 128},
}

func newClient(c aws.Config) *iam.Client { return iam.NewFromConfig(c) }

// clientTokenHeader is wire.ClientTokenHeader.
const clientTokenHeader = "X-Coracle-Client-Token" //nolint:gosec // no credential

// withToken gives a request a client token, where the operation has no parameter for it: the generated name, which
// nobody else has. A creation that is repeated returns what the first one made, and lists have nothing else.
func withToken(r *resource.Request) func(*iam.Options) {
	return iam.WithAPIOptions(smithyhttp.SetHeaderValue(clientTokenHeader, r.Name))
}

// nameOf returns the name of the resource: the custom one of a property, or the generated one.
func nameOf(r *resource.Request, property string) string {
	if name := r.Text(property); name != "" {
		return name
	}
	return r.Name
}

// ownedName returns the name of a resource that an earlier call has made, which its tags tell.
func ownedName(r *resource.Request, name string, tags []types.Tag) (string, error) {
	if !r.Owns(tagMap(tags)) {
		return "", resource.ErrNotFound
	}
	return name, nil
}

func tagMap(list []types.Tag) map[string]string {
	tags := make(map[string]string, len(list))
	for _, t := range list {
		tags[aws.ToString(t.Key)] = aws.ToString(t.Value)
	}
	return tags
}

func newTag(key, value string) types.Tag { return types.Tag{Key: &key, Value: &value} }

// wantedTags returns the tags of a new resource, whose own are in its property Tags.
func wantedTags(r *resource.Request) []types.Tag { return resource.TagList(r.Wanted("Tags"), newTag) }

// setLiveTags puts the tags of a resource into its properties.
func setLiveTags(r *resource.Request, properties map[string]any, live []types.Tag) {
	delete(properties, "Tags")
	if tags := resource.TagObjects(r.LiveTags("Tags", tagMap(live))); tags != nil {
		properties["Tags"] = tags
	}
}

// decodeDocument returns a policy document that IAM has described as a property.
func decodeDocument(escaped *string) any {
	text, err := url.PathUnescape(aws.ToString(escaped))
	if err != nil {
		return aws.ToString(escaped)
	}
	return resource.Document(text)
}

// sameDocument reports whether a policy document that IAM has described is that of a property.
func sameDocument(escaped *string, property any) bool {
	return reflect.DeepEqual(decodeDocument(escaped), resource.Document(resource.Text(property)))
}

// timestamp is the form of times in attributes.
const timestamp = "2006-01-02T15:04:05Z"

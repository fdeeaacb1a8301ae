// Package eks has the handlers of the CloudFormation resource types of Amazon EKS: AWS::EKS::*. Each is a client of the
// EKS API, signed as the caller or as the service role of the stack.
//
// The properties have the names of the API, so that most of them go into its requests by their names. An update of a
// cluster, a node group or an add-on is a sequence of updates of EKS, one at a time: update.go.
//
// https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/AWS_EKS.html
package eks

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"

	"github.com/coracle-eks/coracle/internal/controller/stack/resource"
)

// Types are the resource types of EKS.
var Types = map[string]resource.Type{
	"AWS::EKS::AccessEntry": {Handler: accessEntries, Tagged: true},
	"AWS::EKS::Addon":       {Handler: addons, Tagged: true},
	"AWS::EKS::Capability":  {Handler: capabilities, Tagged: true},
	"AWS::EKS::Cluster": {
		Handler: clusters, NameLimit: 100, Names: []string{"Name"}, Tagged: true,
		Refused: []string{"ActiveCertificateAuthorityId", "CertificateAuthority", "OutpostConfig", "RollbackConfig"},
	},
	"AWS::EKS::FargateProfile": {
		Handler: fargateProfiles, NameLimit: 63, Names: []string{"FargateProfileName"}, Tagged: true,
	},
	"AWS::EKS::IdentityProviderConfig": {
		Handler: identityProviders, NameLimit: 63, Names: []string{"IdentityProviderConfigName"}, Tagged: true,
	},
	"AWS::EKS::Nodegroup": {
		Handler: nodegroups, NameLimit: 63, Names: []string{"NodegroupName"}, Tagged: true,
	},
	"AWS::EKS::PodIdentityAssociation": {Handler: associations, Tagged: true},
}

func newClient(c aws.Config) *eks.Client { return eks.NewFromConfig(c) }

// poll is the time between two looks at what EKS is about.
const poll = time.Second

// idPart returns a part of the physical ID, whose parts are divided by a separator.
func idPart(r *resource.Request, separator string, index int) string {
	parts := strings.Split(r.PhysicalID, separator)
	if index >= len(parts) {
		return ""
	}
	return parts[index]
}

// setTags returns the step that changes the tags of the resource whose ARN arn returns.
func setTags(
	arn func(ctx context.Context, c *eks.Client, r *resource.Request) (string, error),
) resource.Step[*eks.Client] {
	return resource.Step[*eks.Client]{
		Properties: []string{"Tags"}, Tags: true,
		Run: func(ctx context.Context, c *eks.Client, r *resource.Request) error {
			set, removed := r.TagChanges("Tags")
			if len(set) == 0 && len(removed) == 0 {
				return nil
			}
			name, err := arn(ctx, c, r)
			if err != nil {
				return err
			}
			if len(removed) > 0 {
				_, err := c.UntagResource(ctx, &eks.UntagResourceInput{ResourceArn: &name, TagKeys: removed})
				if err != nil {
					return err
				}
			}
			if len(set) == 0 {
				return nil
			}
			_, err = c.TagResource(ctx, &eks.TagResourceInput{ResourceArn: &name, Tags: set})
			return err
		},
	}
}

// setLiveTags puts the tags of a resource into its properties, as a list.
func setLiveTags(r *resource.Request, properties map[string]any, live map[string]string) {
	delete(properties, "Tags")
	if tags := resource.TagObjects(r.LiveTags("Tags", live)); tags != nil {
		properties["Tags"] = tags
	}
}

// pick returns the properties with those names.
func pick(all map[string]any, names ...string) map[string]any {
	kept := map[string]any{}
	for _, name := range names {
		if value, ok := all[name]; ok {
			kept[name] = value
		}
	}
	return kept
}

// failure returns the error of a resource that EKS gave up, with the health issues that it names.
func failure(what, status string, issues []string) error {
	text := fmt.Sprintf("%s is in status %s", what, status)
	if len(issues) > 0 {
		text += ": " + strings.Join(issues, "; ")
	}
	return resource.Errorf(resource.NotStabilized, "%s", text)
}

// issue words a health issue.
func issue(code, message string, resources []string) string {
	text := code
	if message != "" {
		text += ": " + message
	}
	if len(resources) > 0 {
		text += " [" + strings.Join(resources, ", ") + "]"
	}
	return text
}

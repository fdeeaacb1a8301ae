// Package kms has the handlers of the CloudFormation resource types AWS::KMS::Key and AWS::KMS::Alias. Each is a client
// of KMS, signed as the caller or as the service role of the stack.
//
// https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/AWS_KMS.html
package kms

import (
	"context"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/aws-sdk-go-v2/service/kms/types"

	"github.com/coracle-eks/coracle/internal/controller/stack/resource"
)

// Types are the resource types of KMS.
var Types = map[string]resource.Type{
	"AWS::KMS::Alias": {Handler: aliases, Names: []string{"AliasName"}},
	"AWS::KMS::Key":   {Handler: keys, Tagged: true},
}

func newClient(c aws.Config) *kms.Client { return kms.NewFromConfig(c) }

func newTag(key, value string) types.Tag { return types.Tag{TagKey: &key, TagValue: &value} }

// step returns a part of a key that is set by a call.
func step(
	run func(context.Context, *kms.Client, *resource.Request) error, properties ...string,
) resource.Step[*kms.Client] {
	return resource.Step[*kms.Client]{Properties: properties, Run: run}
}

// keys is the handler of AWS::KMS::Key. A key that is scheduled for deletion is gone: nothing can use it any more.
var keys = resource.Handle(resource.Table[*kms.Client, types.KeyMetadata]{
	Client: newClient,
	Create: func(ctx context.Context, c *kms.Client, r *resource.Request) (string, error) {
		in := &kms.CreateKeyInput{
			Description: r.Pointer("Description"), KeySpec: types.KeySpec(r.Text("KeySpec")),
			KeyUsage: types.KeyUsageType(r.Text("KeyUsage")), MultiRegion: r.Flag("MultiRegion"),
			Origin: types.OriginType(r.Text("Origin")), Policy: r.Pointer("KeyPolicy"),
			BypassPolicyLockoutSafetyCheck: aws.ToBool(r.Flag("BypassPolicyLockoutSafetyCheck")),
			Tags:                           resource.TagList(r.Wanted("Tags"), newTag),
		}
		out, err := c.CreateKey(ctx, in)
		if err != nil {
			return "", err
		}
		return aws.ToString(out.KeyMetadata.KeyId), nil
	},
	Find:     findKey,
	Describe: describeKey,
	State: func(live *types.KeyMetadata) (resource.State, error) {
		if isPendingDeletion(live) {
			return resource.Gone, nil
		}
		return resource.Ready, nil
	},
	// Rotation can be changed of keys that are enabled: those that become so are enabled first, and others are disabled
	// last.
	Configure: []resource.Step[*kms.Client]{
		step(enable, "Enabled"),
		step(setRotation, "EnableKeyRotation", "RotationPeriodInDays"),
		step(disable, "Enabled"),
		{
			Properties: []string{"Description"}, Update: true,
			Run: func(ctx context.Context, c *kms.Client, r *resource.Request) error {
				_, err := c.UpdateKeyDescription(ctx, &kms.UpdateKeyDescriptionInput{
					KeyId: &r.PhysicalID, Description: aws.String(r.Text("Description")),
				})
				return err
			},
		},
		{
			Properties: []string{"KeyPolicy"}, Update: true,
			Run: func(ctx context.Context, c *kms.Client, r *resource.Request) error {
				policy := r.Pointer("KeyPolicy")
				if policy == nil {
					policy = aws.String(defaultPolicy(r))
				}
				_, err := c.PutKeyPolicy(ctx, &kms.PutKeyPolicyInput{
					KeyId: &r.PhysicalID, Policy: policy,
					BypassPolicyLockoutSafetyCheck: aws.ToBool(r.Flag("BypassPolicyLockoutSafetyCheck")),
				})
				return err
			},
		},
		{Properties: []string{"Tags"}, Tags: true, Run: setTags},
		// What the deletion and other changes of the key go by.
		{Properties: []string{"BypassPolicyLockoutSafetyCheck", "PendingWindowInDays"}, Update: true},
	},
	Delete: func(ctx context.Context, c *kms.Client, r *resource.Request) error {
		live, err := describeKey(ctx, c, r)
		if err != nil {
			return err
		}
		if isPendingDeletion(live) {
			return resource.ErrNotFound
		}
		_, err = c.ScheduleKeyDeletion(ctx, &kms.ScheduleKeyDeletionInput{
			KeyId: &r.PhysicalID, PendingWindowInDays: r.Int32("PendingWindowInDays"),
		})
		return err
	},
	Attributes: func(_ *resource.Request, live *types.KeyMetadata) map[string]any {
		return map[string]any{"Arn": aws.ToString(live.Arn), "KeyId": aws.ToString(live.KeyId)}
	},
	Properties: keyProperties,
})

func describeKey(ctx context.Context, c *kms.Client, r *resource.Request) (*types.KeyMetadata, error) {
	out, err := c.DescribeKey(ctx, &kms.DescribeKeyInput{KeyId: &r.PhysicalID})
	if err != nil {
		return nil, err
	}
	return out.KeyMetadata, nil
}

func isPendingDeletion(live *types.KeyMetadata) bool {
	return live.KeyState == types.KeyStatePendingDeletion || live.KeyState == types.KeyStatePendingReplicaDeletion
}

// findKey looks through all keys for one with the tags of the resource, as neither a name nor a client token tells.
func findKey(ctx context.Context, c *kms.Client, r *resource.Request) (string, error) {
	pages := kms.NewListKeysPaginator(c, &kms.ListKeysInput{})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return "", err
		}
		for _, k := range page.Keys {
			called := *r
			called.PhysicalID = aws.ToString(k.KeyId)
			if slices.Contains(r.Replaced, called.PhysicalID) {
				continue
			}
			tags, err := tagsOf(ctx, c, &called)
			switch {
			case resource.IsNotFound(err), resource.Classify(err) == resource.AccessDenied: // somebody else's
				continue
			case err != nil:
				return "", err
			case !r.Owns(tags):
				continue
			}
			if live, err := describeKey(ctx, c, &called); err != nil {
				return "", err
			} else if !isPendingDeletion(live) {
				return called.PhysicalID, nil
			}
		}
	}
	return "", resource.ErrNotFound
}

// isEnabled reports whether the properties want an enabled key: unless they say otherwise.
func isEnabled(r *resource.Request) bool { return r.Flag("Enabled") == nil || *r.Flag("Enabled") }

func enable(ctx context.Context, c *kms.Client, r *resource.Request) error {
	if !isEnabled(r) {
		return nil
	}
	_, err := c.EnableKey(ctx, &kms.EnableKeyInput{KeyId: &r.PhysicalID})
	return err
}

func disable(ctx context.Context, c *kms.Client, r *resource.Request) error {
	if isEnabled(r) {
		return nil
	}
	_, err := c.DisableKey(ctx, &kms.DisableKeyInput{KeyId: &r.PhysicalID})
	return err
}

const defaultRotationPeriod = 365 // days

// setRotation switches the rotation of a key on or off. It does nothing where a call whose answer was lost has done so:
// the key may be disabled by now, and refuse.
func setRotation(ctx context.Context, c *kms.Client, r *resource.Request) error {
	is, err := c.GetKeyRotationStatus(ctx, &kms.GetKeyRotationStatusInput{KeyId: &r.PhysicalID})
	if err != nil {
		return err
	}
	wanted, period := aws.ToBool(r.Flag("EnableKeyRotation")), r.Int32("RotationPeriodInDays")
	if period == nil {
		period = aws.Int32(defaultRotationPeriod)
	}
	switch {
	case !wanted && !is.KeyRotationEnabled,
		wanted && is.KeyRotationEnabled && aws.ToInt32(is.RotationPeriodInDays) == *period:
		return nil
	case !wanted:
		_, err = c.DisableKeyRotation(ctx, &kms.DisableKeyRotationInput{KeyId: &r.PhysicalID})
	default:
		_, err = c.EnableKeyRotation(ctx, &kms.EnableKeyRotationInput{
			KeyId: &r.PhysicalID, RotationPeriodInDays: period,
		})
	}
	return err
}

// defaultPolicy returns the policy of a key whose template has none: it lets IAM decide.
func defaultPolicy(r *resource.Request) string {
	return resource.Text(map[string]any{
		"Version": "2012-10-17", "Id": "key-default-1", "Statement": []any{map[string]any{
			"Sid": "Enable IAM User Permissions", "Effect": "Allow", "Action": "kms:*", "Resource": "*",
			"Principal": map[string]any{"AWS": "arn:" + r.Partition + ":iam::" + r.Account + ":root"},
		}},
	})
}

func tagsOf(ctx context.Context, c *kms.Client, r *resource.Request) (map[string]string, error) {
	pages := kms.NewListResourceTagsPaginator(c, &kms.ListResourceTagsInput{KeyId: &r.PhysicalID})
	list, err := resource.ListAll(ctx, pages, func(page *kms.ListResourceTagsOutput) []types.Tag { return page.Tags })
	if err != nil {
		return nil, err
	}
	tags := map[string]string{}
	for _, t := range list {
		tags[aws.ToString(t.TagKey)] = aws.ToString(t.TagValue)
	}
	return tags, nil
}

func setTags(ctx context.Context, c *kms.Client, r *resource.Request) error {
	set, removed := r.TagChanges("Tags")
	if len(removed) > 0 {
		_, err := c.UntagResource(ctx, &kms.UntagResourceInput{KeyId: &r.PhysicalID, TagKeys: removed})
		if err != nil {
			return err
		}
	}
	if len(set) == 0 {
		return nil
	}
	_, err := c.TagResource(ctx, &kms.TagResourceInput{KeyId: &r.PhysicalID, Tags: resource.TagList(set, newTag)})
	return err
}

func keyProperties(
	ctx context.Context, c *kms.Client, r *resource.Request, live *types.KeyMetadata,
) (map[string]any, error) {
	properties := map[string]any{}
	described := resource.Encode(live, nil)
	for _, name := range []string{"Description", "Enabled", "KeySpec", "KeyUsage", "MultiRegion", "Origin"} {
		if value, ok := described[name]; ok {
			properties[name] = value
		}
	}
	policy, err := c.GetKeyPolicy(ctx, &kms.GetKeyPolicyInput{KeyId: &r.PhysicalID})
	if err != nil {
		return nil, err
	}
	properties["KeyPolicy"] = resource.Document(aws.ToString(policy.Policy))
	rotation, err := c.GetKeyRotationStatus(ctx, &kms.GetKeyRotationStatusInput{KeyId: &r.PhysicalID})
	if err != nil {
		return nil, err
	}
	properties["EnableKeyRotation"] = rotation.KeyRotationEnabled
	if rotation.KeyRotationEnabled && rotation.RotationPeriodInDays != nil {
		properties["RotationPeriodInDays"] = resource.Encode(rotation, nil)["RotationPeriodInDays"]
	}
	tags, err := tagsOf(ctx, c, r)
	if err != nil {
		return nil, err
	}
	if own := resource.TagObjects(r.LiveTags("Tags", tags)); own != nil {
		properties["Tags"] = own
	}
	return properties, nil
}

// aliases is the handler of AWS::KMS::Alias.
var aliases = resource.Claim(resource.Table[*kms.Client, types.AliasListEntry]{
	Client: newClient,
	Create: func(ctx context.Context, c *kms.Client, r *resource.Request) (string, error) {
		_, err := c.CreateAlias(ctx, &kms.CreateAliasInput{
			AliasName: r.Pointer("AliasName"), TargetKeyId: r.Pointer("TargetKeyId"),
		})
		if err != nil {
			return "", err
		}
		return r.Text("AliasName"), nil
	},
	Describe: func(ctx context.Context, c *kms.Client, r *resource.Request) (*types.AliasListEntry, error) {
		pages := kms.NewListAliasesPaginator(c, &kms.ListAliasesInput{})
		for pages.HasMorePages() {
			page, err := pages.NextPage(ctx)
			if err != nil {
				return nil, err
			}
			for _, a := range page.Aliases {
				if aws.ToString(a.AliasName) == r.PhysicalID {
					return &a, nil
				}
			}
		}
		return nil, resource.ErrNotFound
	},
	Configure: []resource.Step[*kms.Client]{{
		Properties: []string{"TargetKeyId"}, Update: true,
		Run: func(ctx context.Context, c *kms.Client, r *resource.Request) error {
			_, err := c.UpdateAlias(ctx, &kms.UpdateAliasInput{
				AliasName: &r.PhysicalID, TargetKeyId: r.Pointer("TargetKeyId"),
			})
			return err
		},
	}},
	Delete: func(ctx context.Context, c *kms.Client, r *resource.Request) error {
		_, err := c.DeleteAlias(ctx, &kms.DeleteAliasInput{AliasName: &r.PhysicalID})
		return err
	},
	Properties: func(
		_ context.Context, _ *kms.Client, _ *resource.Request, live *types.AliasListEntry,
	) (map[string]any, error) {
		return map[string]any{
			"AliasName": aws.ToString(live.AliasName), "TargetKeyId": aws.ToString(live.TargetKeyId),
		}, nil
	},
}, func(r *resource.Request) (string, bool) { return r.Text("AliasName"), false })

// Package acm has the handler of the CloudFormation resource type AWS::CertificateManager::Certificate: a client of AWS
// Certificate Manager, signed as the caller or as the service role of the stack.
//
// https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/AWS_CertificateManager.html
package acm

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/acm"
	"github.com/aws/aws-sdk-go-v2/service/acm/types"

	"github.com/coracle-eks/coracle/internal/controller/stack/resource"
)

// Types are the resource types of AWS Certificate Manager.
var Types = map[string]resource.Type{
	"AWS::CertificateManager::Certificate": {Handler: certificates, Tagged: true},
}

func newTag(key, value string) types.Tag { return types.Tag{Key: &key, Value: &value} }

// certificates is the handler of AWS::CertificateManager::Certificate. Records of DNS are not made in a hosted zone: no
// certificate waits for them.
var certificates = resource.Handle(resource.Table[*acm.Client, types.CertificateDetail]{
	Client: func(c aws.Config) *acm.Client { return acm.NewFromConfig(c) },
	Create: func(ctx context.Context, c *acm.Client, r *resource.Request) (string, error) {
		sum := sha256.Sum256([]byte(r.Token)) // tokens have 32 characters at most here
		in := &acm.RequestCertificateInput{
			DomainName: r.Pointer("DomainName"), SubjectAlternativeNames: r.Texts("SubjectAlternativeNames"),
			CertificateAuthorityArn: r.Pointer("CertificateAuthorityArn"),
			KeyAlgorithm:            types.KeyAlgorithm(r.Text("KeyAlgorithm")),
			ValidationMethod:        types.ValidationMethod(r.Text("ValidationMethod")),
			Options:                 options(r), Tags: resource.TagList(r.Wanted("Tags"), newTag),
			IdempotencyToken: aws.String(hex.EncodeToString(sum[:16])),
		}
		for _, o := range r.Objects("DomainValidationOptions") {
			if domain := resource.Text(o["ValidationDomain"]); domain != "" {
				in.DomainValidationOptions = append(in.DomainValidationOptions, types.DomainValidationOption{
					DomainName: aws.String(resource.Text(o["DomainName"])), ValidationDomain: &domain})
			}
		}
		out, err := c.RequestCertificate(ctx, in)
		if err != nil {
			return "", err
		}
		return aws.ToString(out.CertificateArn), nil
	},
	Find:     find,
	Describe: describe,
	State: func(live *types.CertificateDetail) (resource.State, error) {
		switch live.Status {
		case types.CertificateStatusPendingValidation:
			return resource.Creating, nil
		case types.CertificateStatusFailed, types.CertificateStatusValidationTimedOut:
			return resource.Creating, resource.Errorf(resource.NotStabilized, "The certificate %s is %s",
				aws.ToString(live.CertificateArn), live.Status)
		}
		return resource.Ready, nil
	},
	Configure: []resource.Step[*acm.Client]{
		{
			Properties: []string{"CertificateTransparencyLoggingPreference"}, Update: true,
			Run: func(ctx context.Context, c *acm.Client, r *resource.Request) error {
				preference := types.CertificateTransparencyLoggingPreference(
					r.Text("CertificateTransparencyLoggingPreference"))
				if preference == "" {
					preference = types.CertificateTransparencyLoggingPreferenceEnabled
				}
				_, err := c.UpdateCertificateOptions(ctx, &acm.UpdateCertificateOptionsInput{CertificateArn: &r.PhysicalID,
					Options: &types.CertificateOptions{CertificateTransparencyLoggingPreference: preference}})
				return err
			},
		},
		{Properties: []string{"Tags"}, Tags: true, Run: setTags},
	},
	Delete: func(ctx context.Context, c *acm.Client, r *resource.Request) error {
		_, err := c.DeleteCertificate(ctx, &acm.DeleteCertificateInput{CertificateArn: &r.PhysicalID})
		return err
	},
	Attributes: func(_ *resource.Request, live *types.CertificateDetail) map[string]any {
		return map[string]any{"CertificateArn": aws.ToString(live.CertificateArn)}
	},
	Properties: properties,
})

// options returns the options of the certificate, nil where the properties have none.
func options(r *resource.Request) *types.CertificateOptions {
	o := types.CertificateOptions{
		CertificateTransparencyLoggingPreference: types.CertificateTransparencyLoggingPreference(
			r.Text("CertificateTransparencyLoggingPreference")),
		Export: types.CertificateExport(r.Text("CertificateExport")),
	}
	if o == (types.CertificateOptions{}) {
		return nil
	}
	return &o
}

func describe(ctx context.Context, c *acm.Client, r *resource.Request) (*types.CertificateDetail, error) {
	out, err := c.DescribeCertificate(ctx, &acm.DescribeCertificateInput{CertificateArn: &r.PhysicalID})
	if err != nil {
		return nil, err
	}
	return out.Certificate, nil
}

// find looks through all certificates for one with the tags of the resource: a token is of no use after an hour.
func find(ctx context.Context, c *acm.Client, r *resource.Request) (string, error) {
	pages := acm.NewListCertificatesPaginator(c, &acm.ListCertificatesInput{
		Includes: &types.Filters{KeyTypes: types.KeyAlgorithm("").Values()},
	})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return "", err
		}
		for _, summary := range page.CertificateSummaryList {
			called := *r
			called.PhysicalID = aws.ToString(summary.CertificateArn)
			if slices.Contains(r.Replaced, called.PhysicalID) ||
				!strings.EqualFold(aws.ToString(summary.DomainName), r.Text("DomainName")) {
				continue
			}
			tags, err := tagsOf(ctx, c, &called)
			switch {
			case resource.IsNotFound(err), resource.Classify(err) == resource.AccessDenied: // somebody else's
				continue
			case err != nil:
				return "", err
			case r.Owns(tags):
				return called.PhysicalID, nil
			}
		}
	}
	return "", resource.ErrNotFound
}

func tagsOf(ctx context.Context, c *acm.Client, r *resource.Request) (map[string]string, error) {
	out, err := c.ListTagsForCertificate(ctx, &acm.ListTagsForCertificateInput{CertificateArn: &r.PhysicalID})
	if err != nil {
		return nil, err
	}
	tags := make(map[string]string, len(out.Tags))
	for _, t := range out.Tags {
		tags[aws.ToString(t.Key)] = aws.ToString(t.Value)
	}
	return tags, nil
}

func setTags(ctx context.Context, c *acm.Client, r *resource.Request) error {
	set, removed := r.TagChanges("Tags")
	if len(removed) > 0 {
		in := &acm.RemoveTagsFromCertificateInput{CertificateArn: &r.PhysicalID}
		for _, key := range removed {
			in.Tags = append(in.Tags, types.Tag{Key: &key})
		}
		if _, err := c.RemoveTagsFromCertificate(ctx, in); err != nil {
			return err
		}
	}
	if len(set) == 0 {
		return nil
	}
	_, err := c.AddTagsToCertificate(ctx, &acm.AddTagsToCertificateInput{CertificateArn: &r.PhysicalID,
		Tags: resource.TagList(set, newTag)})
	return err
}

func properties(
	ctx context.Context, c *acm.Client, r *resource.Request, live *types.CertificateDetail,
) (map[string]any, error) {
	name := aws.ToString(live.DomainName)
	p := map[string]any{"DomainName": name, "KeyAlgorithm": string(live.KeyAlgorithm)}
	if live.Options != nil {
		p["CertificateTransparencyLoggingPreference"] = string(live.Options.CertificateTransparencyLoggingPreference)
		p["CertificateExport"] = string(live.Options.Export)
	}
	// The name itself is an alternative, too; a template may say so or not.
	listed := slices.Contains(r.Texts("SubjectAlternativeNames"), name)
	var alternatives, validations []any
	for _, other := range live.SubjectAlternativeNames {
		if other != name || listed {
			alternatives = append(alternatives, other)
		}
	}
	for _, v := range live.DomainValidationOptions {
		p["ValidationMethod"] = string(v.ValidationMethod)
		if domain := aws.ToString(v.ValidationDomain); domain != aws.ToString(v.DomainName) {
			validations = append(validations, map[string]any{"DomainName": aws.ToString(v.DomainName),
				"ValidationDomain": domain})
		}
	}
	if alternatives != nil {
		p["SubjectAlternativeNames"] = alternatives
	}
	if validations != nil {
		p["DomainValidationOptions"] = validations
	}
	tags, err := tagsOf(ctx, c, r)
	if err != nil {
		return nil, err
	}
	if own := resource.TagObjects(r.LiveTags("Tags", tags)); own != nil {
		p["Tags"] = own
	}
	return p, nil
}

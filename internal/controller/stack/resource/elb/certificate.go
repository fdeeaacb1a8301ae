package elb

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	v2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"github.com/coracle-eks/coracle/internal/controller/stack/resource"
)

// certificatesOf are those of the certificates in a property that a listener has, beside its default one.
type certificatesOf struct{ there []string }

// listenerCertificates is the handler of AWS::ElasticLoadBalancingV2::ListenerCertificate: certificates that a listener
// has beside its default one. Its physical ID is a name that nothing else bears. Nothing tells who has added a
// certificate: those that the listener had before the creation are noted, also in the physical ID, and stay whatever
// becomes of the resource.
var listenerCertificates = resource.Note(resource.Table[*v2.Client, certificatesOf]{
	Client: newClient,
	Create: func(_ context.Context, _ *v2.Client, r *resource.Request) (string, error) {
		others, _ := resource.Noted(r)
		return r.Name + others, nil
	},
	Find: func(ctx context.Context, c *v2.Client, r *resource.Request) (string, error) {
		live, err := describeCertificates(ctx, c, r)
		if err != nil {
			return "", err
		}
		others, known := resource.Noted(r)
		if !known {
			return nameOthers(live.there), nil
		}
		if len(withoutOthers(r.Name+others, live.there)) == 0 {
			return "", resource.ErrNotFound
		}
		return r.Name + others, nil
	},
	Describe: describeCertificates,
	Configure: []resource.Step[*v2.Client]{{
		Properties: []string{"Certificates"},
		Run: func(ctx context.Context, c *v2.Client, r *resource.Request) error {
			wanted := certificatesIn(r.Properties["Certificates"])
			for _, arn := range wanted {
				if _, err := c.AddListenerCertificates(ctx, &v2.AddListenerCertificatesInput{
					ListenerArn: r.Pointer("ListenerArn"), Certificates: []types.Certificate{{CertificateArn: &arn}},
				}); err != nil {
					return err
				}
			}
			return removeCertificates(ctx, c, r, slices.DeleteFunc(certificatesIn(r.Previous["Certificates"]),
				func(arn string) bool { return slices.Contains(wanted, arn) }))
		},
	}},
	Delete: func(ctx context.Context, c *v2.Client, r *resource.Request) error {
		return removeCertificates(ctx, c, r, certificatesIn(r.Properties["Certificates"]))
	},
	Attributes: func(r *resource.Request, _ *certificatesOf) map[string]any {
		return map[string]any{"Id": r.PhysicalID}
	},
	Properties: func(_ context.Context, _ *v2.Client, r *resource.Request, live *certificatesOf) (map[string]any, error) {
		list := []any{}
		for _, arn := range live.there {
			list = append(list, map[string]any{"CertificateArn": arn})
		}
		return map[string]any{"ListenerArn": r.Text("ListenerArn"), "Certificates": list}, nil
	},
})

// certificatesIn returns the ARNs in a property.
func certificatesIn(property any) (arns []string) {
	for _, c := range resource.Objects(property) {
		arns = append(arns, resource.Text(c["CertificateArn"]))
	}
	return arns
}

// describeCertificates returns those certificates of the property that the listener has; ErrNotFound if it has none.
func describeCertificates(ctx context.Context, c *v2.Client, r *resource.Request) (*certificatesOf, error) {
	wanted := certificatesIn(r.Properties["Certificates"])
	live := &certificatesOf{}
	pages := v2.NewDescribeListenerCertificatesPaginator(c, &v2.DescribeListenerCertificatesInput{
		ListenerArn: r.Pointer("ListenerArn")})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		for _, certificate := range page.Certificates {
			arn := aws.ToString(certificate.CertificateArn)
			if !aws.ToBool(certificate.IsDefault) && slices.Contains(wanted, arn) {
				live.there = append(live.there, arn)
			}
		}
	}
	if len(live.there) == 0 {
		return nil, resource.ErrNotFound
	}
	slices.SortFunc(live.there, func(a, b string) int { return slices.Index(wanted, a) - slices.Index(wanted, b) })
	return live, nil
}

// beforeOthers is what the names of others' certificates come after in a physical ID, and betweenOthers what is between
// them.
const beforeOthers, betweenOthers = "/", "."

// nameOthers names certificates for a physical ID.
func nameOthers(arns []string) string {
	var names []string
	for _, arn := range arns {
		names = append(names, nameOther(arn))
	}
	return beforeOthers + strings.Join(names, betweenOthers)
}

func nameOther(arn string) string {
	sum := sha256.Sum256([]byte(arn))
	return hex.EncodeToString(sum[:6])
}

// withoutOthers returns certificates without those that a physical ID names.
func withoutOthers(physicalID string, arns []string) []string {
	_, names, _ := strings.Cut(physicalID, beforeOthers)
	others := strings.Split(names, betweenOthers)
	return slices.DeleteFunc(slices.Clone(arns), func(arn string) bool {
		return slices.Contains(others, nameOther(arn))
	})
}

// removeCertificates removes certificates from the listener, but for those that it had before the resource was made.
// Those that it does not have are removed.
func removeCertificates(ctx context.Context, c *v2.Client, r *resource.Request, arns []string) error {
	for _, arn := range withoutOthers(r.PhysicalID, arns) {
		if _, err := c.RemoveListenerCertificates(ctx, &v2.RemoveListenerCertificatesInput{
			ListenerArn: r.Pointer("ListenerArn"), Certificates: []types.Certificate{{CertificateArn: &arn}},
		}); err != nil && !resource.IsNotFound(err) {
			return err
		}
	}
	return nil
}

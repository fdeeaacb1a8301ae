package cluster_test

import (
	"context"
	"encoding/base64"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/google/go-cmp/cmp"

	"github.com/coracle-eks/coracle/internal/aws/eks/ekstest"
	"github.com/coracle-eks/coracle/internal/pki"
	"github.com/coracle-eks/coracle/internal/record"
)

// A cluster has the certificate authority that it was created with.
func TestCertificateAuthorities(t *testing.T) {
	t.Parallel()
	w, ctx := ekstest.New(t), t.Context()
	created := w.Create("c")
	authority, err := pki.NewAuthority(pki.Cluster, pki.Leaf{CommonName: "kubernetes"}, ekstest.Today)
	if err != nil {
		t.Fatal(err)
	}
	w.Observe("c", record.ControlPlane{Ready: true, Version: "1.35", CertificateAuthority: authority.PEM})
	list, err := w.Client.ListCertificateAuthorities(ctx,
		&eks.ListCertificateAuthoritiesInput{ClusterName: aws.String("c")})
	if err != nil || len(list.CertificateAuthorities) != 1 {
		t.Fatalf("listed %+v, %v", list, err)
	}
	summary := list.CertificateAuthorities[0]
	want := types.CertificateAuthoritySummary{
		Id: summary.Id, CreatedAt: created.CreatedAt, CreatedBy: "EKS", DistributionStatus: "COMPLETE",
		SigningStatus: "IN_USE",
	}
	if d := cmp.Diff(want, summary, ekstest.IgnoreUnexported()); d != "" || len(aws.ToString(summary.Id)) != 36 {
		t.Errorf("listed (-want +got):\n%s", d)
	}
	out, err := w.Client.DescribeCertificateAuthority(ctx,
		&eks.DescribeCertificateAuthorityInput{ClusterName: aws.String("c"), CertificateAuthorityId: summary.Id})
	if err != nil {
		t.Fatal(err)
	}
	described := types.CertificateAuthority{
		Id: summary.Id, CreatedAt: created.CreatedAt, CreatedBy: "EKS", DistributionStatus: "COMPLETE",
		SigningStatus: "IN_USE", RollbackAvailable: aws.Bool(false),
		Data:     aws.String(base64.StdEncoding.EncodeToString(authority.PEM)),
		Validity: out.CertificateAuthority.Validity,
	}
	if d := cmp.Diff(described, *out.CertificateAuthority, ekstest.IgnoreUnexported()); d != "" {
		t.Errorf("described (-want +got):\n%s", d)
	}
	if v := described.Validity; v == nil || v.NotBefore.After(ekstest.Today) ||
		v.NotAfter.Before(ekstest.Today.AddDate(9, 0, 0)) {
		t.Errorf("validity %+v", v)
	}
	call := func(cluster, id string) ekstest.Call {
		return func(ctx context.Context, c *eks.Client) error {
			_, err := c.DescribeCertificateAuthority(ctx,
				&eks.DescribeCertificateAuthorityInput{ClusterName: &cluster, CertificateAuthorityId: &id})
			return err
		}
	}
	w.Refuses("unknown", call("c", "nope"), "ResourceNotFoundException", "No certificate authority found for ID: nope")
	w.Refuses("no cluster", call("nobody", *summary.Id), "ResourceNotFoundException",
		"No cluster found for name: nobody.")
	w.Refuses("page of 101", func(ctx context.Context, c *eks.Client) error {
		_, err := c.ListCertificateAuthorities(ctx,
			&eks.ListCertificateAuthoritiesInput{ClusterName: aws.String("c"), MaxResults: aws.Int32(101)})
		return err
	}, "InvalidParameterException", "1 validation error detected: Value '101' at 'maxResults' failed to "+
		"satisfy constraint: Member must have value less than or equal to 100")
}

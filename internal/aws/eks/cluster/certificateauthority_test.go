package cluster_test

import (
	"bytes"
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

// A certificate authority is replaced by three updates, and its status follows from what the control plane has.
func TestRotateCertificateAuthority(t *testing.T) {
	t.Parallel()
	w, ctx := ekstest.New(t), t.Context()
	w.Create("c")
	pem := func() []byte {
		authority, err := pki.NewAuthority(pki.Cluster, pki.Leaf{CommonName: "kubernetes"}, ekstest.Today)
		if err != nil {
			t.Fatal(err)
		}
		return authority.PEM
	}
	first, second := pem(), pem()
	observed := record.ControlPlane{Ready: true, Version: "1.35", CertificateAuthority: first}
	w.Observe("c", observed)
	expect := func(when string, want ...string) (ids []string) {
		t.Helper()
		list, err := w.Client.ListCertificateAuthorities(ctx,
			&eks.ListCertificateAuthoritiesInput{ClusterName: aws.String("c")})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, a := range list.CertificateAuthorities {
			ids = append(ids, *a.Id)
			got = append(got, string(a.DistributionStatus)+" "+string(a.SigningStatus))
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Fatalf("%s (-want +got):\n%s", when, d)
		}
		return ids
	}
	initial := expect("at first", "COMPLETE IN_USE")[0]
	activate := func(id string) ekstest.Call {
		return func(ctx context.Context, c *eks.Client) error {
			_, err := c.ActivateCertificateAuthority(ctx, &eks.ActivateCertificateAuthorityInput{
				ClusterName: aws.String("c"), CertificateAuthorityId: &id})
			return err
		}
	}
	remove := func(id string) ekstest.Call {
		return func(ctx context.Context, c *eks.Client) error {
			_, err := c.DeleteCertificateAuthority(ctx, &eks.DeleteCertificateAuthorityInput{
				ClusterName: aws.String("c"), CertificateAuthorityId: &id})
			return err
		}
	}
	w.Refuses("activate the one in use", activate(initial), "InvalidRequestException",
		"Certificate authority "+initial+" is already in use")
	w.Refuses("delete the one in use", remove(initial), "InvalidRequestException",
		"Certificate authority "+initial+" is in use and cannot be deleted. Activate another one first.")
	w.Refuses("delete an unknown one", remove("nope"), "ResourceNotFoundException",
		"No certificate authority found for ID: nope")

	made, err := w.Client.CreateCertificateAuthority(ctx,
		&eks.CreateCertificateAuthorityInput{ClusterName: aws.String("c")})
	if err != nil || made.Update.Type != types.UpdateTypeCertificateAuthorityUpdate ||
		made.CertificateAuthority.CreatedBy != types.CertificateAuthorityCreatedByCustomer {
		t.Fatalf("created %+v, %v", made, err)
	}
	successor := *made.CertificateAuthority.Id
	expect("while it is distributed", "COMPLETE IN_USE", "IN_PROGRESS NOT_USED")
	w.Finish("c", *made.Update.Id, types.UpdateStatusSuccessful)
	observed.CertificateAuthority = append(bytes.Clone(first), second...)
	observed.Authorities = []record.TrustedAuthority{{ID: initial, Certificate: first},
		{ID: successor, Certificate: second}}
	observed.SigningAuthorityID = initial
	w.Observe("c", observed)
	expect("once it is distributed", "COMPLETE IN_USE", "COMPLETE NOT_USED")
	w.Refuses("a third one", func(ctx context.Context, c *eks.Client) error {
		_, err := c.CreateCertificateAuthority(ctx, &eks.CreateCertificateAuthorityInput{ClusterName: aws.String("c")})
		return err
	}, "ResourceLimitExceededException",
		"Cluster c already has 2 certificate authorities. Delete the one that is not used first.")

	activated, err := w.Client.ActivateCertificateAuthority(ctx, &eks.ActivateCertificateAuthorityInput{
		ClusterName: aws.String("c"), CertificateAuthorityId: &successor})
	if err != nil || activated.CertificateAuthority.SigningStatus != types.CertificateAuthoritySigningStatusActivating ||
		activated.CertificateAuthority.ActivatedBy != types.CertificateAuthorityActivatedByCustomer {
		t.Fatalf("activated %+v, %v", activated, err)
	}
	w.Finish("c", *activated.Update.Id, types.UpdateStatusSuccessful)
	observed.SigningAuthorityID = successor
	w.Observe("c", observed)
	expect("once it signs", "COMPLETE NOT_USED", "COMPLETE IN_USE")

	deleted, err := w.Client.DeleteCertificateAuthority(ctx, &eks.DeleteCertificateAuthorityInput{
		ClusterName: aws.String("c"), CertificateAuthorityId: &initial})
	if err != nil ||
		deleted.CertificateAuthority.DistributionStatus != types.CertificateAuthorityDistributionStatusDeleting {
		t.Fatalf("deleted %+v, %v", deleted, err)
	}
	w.Finish("c", *deleted.Update.Id, types.UpdateStatusSuccessful)
	observed.CertificateAuthority, observed.Authorities = second, observed.Authorities[1:]
	w.Observe("c", observed)
	if ids := expect("at last", "COMPLETE IN_USE"); ids[0] != successor {
		t.Errorf("%s is left, want %s", ids[0], successor)
	}
}

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

package kubeletcsr

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	certificatesv1 "k8s.io/api/certificates/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/kube/apiservertest"
	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store/storetest"
)

// fakeEC2 knows what it is told. Filters are EC2's business.
type fakeEC2 struct {
	mu        sync.Mutex
	failures  int
	instances []ec2types.Instance
	asked     []*ec2.DescribeInstancesInput
}

func (f *fakeEC2) DescribeInstances(_ context.Context, in *ec2.DescribeInstancesInput, _ ...func(*ec2.Options)) (
	*ec2.DescribeInstancesOutput, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, in)
	if f.failures > 0 {
		f.failures--
		return nil, errors.New("EC2 is not well")
	}
	return &ec2.DescribeInstancesOutput{Reservations: []ec2types.Reservation{{Instances: f.instances}}}, nil
}

func TestKubeletsGetTheirCertificates(t *testing.T) {
	t.Parallel()
	server := apiservertest.Start(t, apiservertest.Options{Controllers: []string{"csrsigning"}})
	allow(t, server)
	s := storetest.New(t)
	f := &fakeEC2{failures: 2}
	c := record.Cluster{Account: "111122223333", Region: "eu-west-1", Name: "demo", ID: "0123", VPCID: "vpc-1"}
	if _, err := record.Clusters(s).Create(t.Context(), c.Key(), c); err != nil {
		t.Fatal(err)
	}
	if _, err := record.ControlPlanes(s).Create(t.Context(), c.Key(), record.ControlPlane{ClusterID: c.ID,
		Endpoint: server.Host, Ready: true}); err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	controller := New(Options{Store: s, Config: server.ConfigFor, EC2: func(string, string) EC2 { return f }, Log: log})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- reconcile.Run(ctx, log, controller.Controllers()...) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()

	kubelet := server.Client("system:node:"+nodeName, "system:bootstrappers",
		"system:nodes").CertificatesV1().CertificateSigningRequests()
	ask := func(change func(*x509.CertificateRequest)) string {
		t.Helper()
		r, err := kubelet.Create(t.Context(), asked(t, change, nil), metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return r.Name
	}
	admin := server.Admin().CertificatesV1().CertificateSigningRequests()
	answer := func(name string) *certificatesv1.CertificateSigningRequest {
		t.Helper()
		var r *certificatesv1.CertificateSigningRequest
		eventually.Nil(t, name+" is answered", func() (err error) {
			r, err = admin.Get(t.Context(), name, metav1.GetOptions{})
			if err == nil && (len(r.Status.Conditions) == 0 ||
				r.Status.Conditions[0].Type != certificatesv1.CertificateDenied && len(r.Status.Certificate) == 0) {
				err = fmt.Errorf("it is %+v", r.Status)
			}
			return err
		})
		return r
	}

	// EC2 fails for a while, and knows the instance only later.
	first := ask(nil)
	bystander := asked(t, nil, nil)
	other, err := admin.Create(t.Context(), bystander, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "EC2 is asked again", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return len(f.asked) >= 4
	})
	f.mu.Lock()
	f.instances = []ec2types.Instance{node()}
	f.mu.Unlock()
	r := answer(first)
	if got := r.Status.Conditions[0]; got.Type != certificatesv1.CertificateApproved || got.Reason != "AutoApproved" ||
		got.Message != "Auto approving self kubelet server certificate after SubjectAccessReview." {
		t.Errorf("approved with %+v", got)
	}
	block, _ := pem.Decode(r.Status.Certificate)
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	if err := certificate.VerifyHostname("10.0.0.7"); err != nil {
		t.Error(err)
	}
	var managers []string
	for _, m := range r.ManagedFields {
		managers = append(managers, m.Manager)
	}
	if !strings.Contains(strings.Join(managers, " "), "eks-certificates-controller") {
		t.Errorf("managers are %v", managers)
	}

	denied := answer(ask(func(r *x509.CertificateRequest) {
		r.DNSNames = append(r.DNSNames,
			"kubernetes")
	})).Status.Conditions[0]
	if denied.Type != certificatesv1.CertificateDenied || !strings.Contains(denied.Message,
		`"kubernetes" is not a name of instance`) {
		t.Errorf("denied with %+v", denied)
	}

	// The API server dies and comes back; so does the watch.
	server.Restart()
	if got := answer(ask(nil)).Status.Conditions[0].Type; got != certificatesv1.CertificateApproved {
		t.Errorf("after a restart: %s", got)
	}
	if r, err := admin.Get(t.Context(), other.Name, metav1.GetOptions{}); err != nil || len(r.Status.Conditions) != 0 {
		t.Errorf("a request of somebody else: %v %+v", err, r.Status)
	}

	// Who may not have one at all, as RBAC says.
	if err := server.Admin().RbacV1().ClusterRoleBindings().Delete(t.Context(), "eks:node-bootstrapper",
		metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually.Nil(t, "nobody without permission has one", func() error { // the authorizer learns of it a moment later
		got := answer(ask(nil)).Status.Conditions[0]
		if got.Type != certificatesv1.CertificateDenied || !strings.Contains(got.Message, "selfnodeserver") {
			return fmt.Errorf("the answer is %+v", got)
		}
		return nil
	})

	// A cluster that is gone is watched no more.
	plane, err := record.ControlPlanes(s).Get(t.Context(), c.Key())
	if err != nil {
		t.Fatal(err)
	}
	if err := record.ControlPlanes(s).Delete(t.Context(), plane); err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "nobody watches it", func() bool {
		_, watched := controller.servers.Get(c.Key())
		return !watched
	})
}

// allow gives the users what EKS's own objects give them.
func allow(t *testing.T, server *apiservertest.Server) {
	t.Helper()
	text, err := os.ReadFile("../controlplane/rbac.yaml")
	if err != nil {
		t.Fatal(err)
	}
	admin := server.Admin().RbacV1()
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		var kind metav1.TypeMeta
		if err := yaml.Unmarshal([]byte(document), &kind); err != nil {
			t.Fatal(err)
		}
		switch kind.Kind {
		case "ClusterRole":
			var o rbacv1.ClusterRole
			err = yaml.Unmarshal([]byte(document), &o)
			if err == nil && ours(o.Name) {
				_, err = admin.ClusterRoles().Create(t.Context(), &o, metav1.CreateOptions{})
			}
		case "ClusterRoleBinding":
			var o rbacv1.ClusterRoleBinding
			err = yaml.Unmarshal([]byte(document), &o)
			if err == nil && ours(o.Name) {
				_, err = admin.ClusterRoleBindings().Create(t.Context(), &o, metav1.CreateOptions{})
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func ours(name string) bool {
	return strings.HasPrefix(name, "eks:certificate-controller") || name == "eks:node-bootstrapper"
}

package elb_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/acm"
	acmtypes "github.com/aws/aws-sdk-go-v2/service/acm/types"
	classic "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	classictypes "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing/types"
	v2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"
	"github.com/google/uuid"

	acmservice "github.com/coracle-eks/coracle/internal/aws/acm"
	"github.com/coracle-eks/coracle/internal/aws/awstest"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// TestACertificateIsNotDeletedUnderAListener has a listener get a certificate just after each read of a request that
// deletes the certificate: either it is refused because the certificate is in use, or the listener gets none.
func TestACertificateIsNotDeletedUnderAListener(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	balancer := *f.newApplication("web").LoadBalancerArn
	certificateManager := acmservice.New(acmservice.Options{Store: f.Store})
	caller := wire.WithRegion(wire.WithCaller(t.Context(), wire.Caller{Account: account}), region)
	port := int32(0)
	deleteWith := func(arn string, wanted int, do func()) error {
		read := 0
		return failed(certificateManager.DeleteCertificate(store.Metered(caller, func(int64) error {
			if read++; read == wanted {
				do()
			}
			return nil
		}), &acm.DeleteCertificateInput{CertificateArn: &arn}))
	}
	for _, before := range []bool{false, true} { // whether a listener had the certificate before
		for after := 1; ; after++ {
			arn := f.certificate(uuid.NewString(), acmtypes.CertificateStatusIssued)
			serve := func() (string, error) {
				port++
				out, err := f.v2.CreateListener(t.Context(), &v2.CreateListenerInput{LoadBalancerArn: &balancer,
					Protocol: types.ProtocolEnumHttps, Port: &port, Certificates: certificates(arn), DefaultActions: fixed("404")})
				if err != nil {
					return "", err
				}
				return *out.Listeners[0].ListenerArn, nil
			}
			remove := func(listener string) {
				awstest.Must[*v2.DeleteListenerOutput](t)(f.v2.DeleteListener(t.Context(),
					&v2.DeleteListenerInput{ListenerArn: &listener}))
			}
			if before {
				listener, err := serve()
				if err != nil {
					t.Fatal(err)
				}
				remove(listener)
			}
			var listener string
			var refused error
			err := deleteWith(arn, after, func() { listener, refused = serve() })
			if listener == "" && refused == nil { // there are not so many reads
				if after < 3 || err != nil {
					t.Errorf("before %v: the deletion reads %d times, and returns %v", before, after-1, err)
				}
				break
			}
			switch {
			case refused != nil:
				t.Errorf("before %v, after read %d: the listener is refused: %v", before, after, refused)
			case awstest.Code(err) != "ResourceInUseException":
				t.Errorf("before %v, after read %d: the deletion returns %v", before, after, err)
			default:
				remove(listener)
				if err := deleteWith(arn, 0, nil); err != nil {
					t.Errorf("before %v: %v", before, err)
				}
			}
		}
	}
	uses, err := record.CertificateUses(f.Store).List(t.Context(), "")
	if err != nil || len(uses) != 0 {
		t.Errorf("uses of deleted certificates: %v, %v", uses, err)
	}
}

// TestACertificateHasOneSpelling has listeners name a certificate by other texts with the same ID in them, by which
// nobody would find that it is in use.
func TestACertificateHasOneSpelling(t *testing.T) {
	t.Parallel()
	f, ctx := newFixture(t), t.Context()
	arn := f.certificate(uuid.NewString(), acmtypes.CertificateStatusIssued)
	balancer := *f.newApplication("web").LoadBalancerArn
	f.newClassic("classic")
	for i, spelled := range []string{
		strings.Replace(arn, "arn:aws:", "arn:aws-cn:", 1), strings.Replace(arn, "arn:aws:", "arn::", 1),
		strings.Replace(arn, "arn:aws:", "x:aws:", 1), strings.ToUpper(arn),
	} {
		port := int32(443 + i)
		for what, err := range map[string]error{
			"v2": failed(f.v2.CreateListener(ctx, &v2.CreateListenerInput{LoadBalancerArn: &balancer, Port: &port,
				Protocol: types.ProtocolEnumHttps, Certificates: certificates(spelled), DefaultActions: fixed("404")})),
			"classic": failed(f.classic.CreateLoadBalancerListeners(ctx, &classic.CreateLoadBalancerListenersInput{
				LoadBalancerName: aws.String("classic"), Listeners: []classictypes.Listener{{Protocol: aws.String("ssl"),
					LoadBalancerPort: port, InstancePort: aws.Int32(1), SSLCertificateId: &spelled}}})),
		} {
			if code := fmt.Sprint(awstest.Code(err)); !strings.HasPrefix(code, "CertificateNotFound") {
				t.Errorf("%s, %s: %v", what, spelled, err)
			}
		}
	}
}

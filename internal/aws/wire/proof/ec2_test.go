package proof

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/smithy-go"

	"github.com/coracle-eks/coracle/internal/aws/wire"
)

// What EC2 does otherwise than every other service.
func TestEC2Habits(t *testing.T) {
	r := theRig()
	client := r.clients[wire.EC2].Interface().(*ec2.Client)
	answer := func(op string, out any) {
		r.answers.Store("ec2."+op, func(any) (any, error) { return out, nil })
	}
	code := func(err error) (string, int) {
		var api smithy.APIError
		var status interface{ HTTPStatusCode() int }
		if !errors.As(err, &api) || !errors.As(err, &status) {
			t.Fatalf("not an API error: %v", err)
		}
		return api.ErrorCode(), status.HTTPStatusCode()
	}

	t.Run("a dry run ends before the handler", func(t *testing.T) {
		answer("DeleteVpc", &ec2.DeleteVpcOutput{})
		_, err := client.DeleteVpc(t.Context(), &ec2.DeleteVpcInput{VpcId: aws.String("vpc-1"), DryRun: aws.Bool(true)})
		if c, s := code(err); c != "DryRunOperation" || s != http.StatusPreconditionFailed {
			t.Errorf("got %s, %d", c, s)
		}
		if _, err := client.DeleteVpc(t.Context(), &ec2.DeleteVpcInput{VpcId: aws.String("vpc-1"),
			DryRun: aws.Bool(false)}); err != nil {
			t.Errorf("DryRun=false: %v", err)
		}
	})
	t.Run("a service may look at DryRun itself", func(t *testing.T) {
		mux := wire.NewMux(wire.Options{Credentials: anyone{}, Authorizer: anything{},
			Logger: slog.New(slog.DiscardHandler)})
		mux.Register(
			wire.EC2,
			wire.Handle(checking{}.DeleteVpc, wire.OnAll).CheckingDryRun(),
			wire.Handle(checking{}.DeleteSubnet, wire.OnAll).CheckingDryRun(),
		)
		client := ec2.New(client.Options(), func(o *ec2.Options) { o.HTTPClient = transport{mux.Transport()} })
		_, err := client.DeleteVpc(t.Context(), &ec2.DeleteVpcInput{VpcId: aws.String("vpc-1"), DryRun: aws.Bool(true)})
		if c, _ := code(err); c != "InvalidVpcID.NotFound" {
			t.Errorf("DeleteVpc: %v", err)
		}
		_, err = client.DeleteSubnet(t.Context(), &ec2.DeleteSubnetInput{SubnetId: aws.String("subnet-1"),
			DryRun: aws.Bool(true)})
		if c, _ := code(err); c != "InternalError" {
			t.Errorf("DeleteSubnet, which forgets to look: %v", err)
		}
	})
	t.Run("a missing parameter has its own code", func(t *testing.T) {
		_, err := client.DeleteVpc(t.Context(), &ec2.DeleteVpcInput{})
		if c, s := code(err); c != "MissingParameter" || s != 400 || !strings.Contains(err.Error(),
			"The request must contain the parameter VpcId") {
			t.Errorf("got %s, %d: %v", c, s, err)
		}
	})
	t.Run("a value out of range", func(t *testing.T) {
		_, err := client.GetSpotPlacementScores(t.Context(), &ec2.GetSpotPlacementScoresInput{TargetCapacity: aws.Int32(0)})
		if c, _ := code(err); c != "InvalidParameterValue" {
			t.Errorf("got %s: %v", c, err)
		}
	})
	t.Run("unknown parameters are refused", func(t *testing.T) {
		for body, want := range map[string]string{
			"Action=DescribeVpcs&Version=2016-11-15&Filter.1.Nme=x&Filter.1.Value.1=y": "Filter.1.Nme",
			"Action=DescribeVpcs&Version=2016-11-15&VpcId.first=vpc-1":                 "VpcId.first",
			"Action=DescribeVpcs&Version=2016-11-15&Unicorn=1":                         "Unicorn",
		} {
			req, err := http.NewRequest(http.MethodPost, "http://coracle.test/", strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			_, _, err = r.mux.Decode(wire.EC2, req)
			var e *wire.Error
			if !errors.As(err, &e) || e.Code != "UnknownParameter" || e.Message != "The parameter "+want+
				" is not recognized" {
				t.Errorf("%s: %v", body, err)
			}
		}
	})
	t.Run("an answer without members says return", func(t *testing.T) {
		answer("DeleteVpc", &ec2.DeleteVpcOutput{})
		res, err := r.raw(t, r.ops["ec2.DeleteVpc"])
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		if err != nil || !strings.Contains(string(body), "<return>true</return>") || !strings.Contains(string(body),
			"<requestId>"+res.Header.Get("X-Amzn-Requestid")) {
			t.Errorf("%s, %v", body, err)
		}
	})
	t.Run("an empty list is there", func(t *testing.T) {
		answer("DescribeVpcs", &ec2.DescribeVpcsOutput{})
		out, err := client.DescribeVpcs(t.Context(), nil)
		if err != nil || out.Vpcs == nil || len(out.Vpcs) != 0 {
			t.Errorf("%+v, %v", out, err)
		}
	})
}

// checking looks at DryRun in one method and forgets it in the other.
type checking struct{}

func (checking) DeleteVpc(_ context.Context, in *ec2.DeleteVpcInput) (*ec2.DeleteVpcOutput, error) {
	return nil, wire.Errorf("InvalidVpcID.NotFound", "The vpc ID '%s' does not exist", *in.VpcId)
}

func (checking) DeleteSubnet(context.Context, *ec2.DeleteSubnetInput) (*ec2.DeleteSubnetOutput, error) {
	return &ec2.DeleteSubnetOutput{}, nil
}

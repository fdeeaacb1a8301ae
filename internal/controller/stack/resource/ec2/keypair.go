package ec2

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	ssmtypes "github.com/aws/aws-sdk-go-v2/service/ssm/types"

	"github.com/coracle-eks/coracle/internal/controller/stack/resource"
)

// keyPairs have the physical IDs that Ref returns: their names.
var keyPairs = kind[types.KeyPairInfo]{
	resource: types.ResourceTypeKeyPair,
	list: func(ctx context.Context, c *ec2.Client, names []string, filters []types.Filter) ([]types.KeyPairInfo, error) {
		out, err := c.DescribeKeyPairs(ctx, &ec2.DescribeKeyPairsInput{KeyNames: names, Filters: filters,
			IncludePublicKey: new(true)})
		if err != nil {
			return nil, err
		}
		return out.KeyPairs, nil
	},
	id: func(k *types.KeyPairInfo) *string { return k.KeyName },
}

// keyClient are the services of key pairs: the private half of one that EC2 has made is a parameter of SSM.
type keyClient struct {
	*ec2.Client
	ssm *ssm.Client
}

// parameterOf returns the name of the parameter with the private half of a key pair.
func parameterOf(k *types.KeyPairInfo) string { return "/ec2/keypair/" + aws.ToString(k.KeyPairId) }

// https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-ec2-keypair.html
var keyPair = resource.Type{
	Tagged: true,
	Names:  []string{"KeyName"},
	Handler: resource.Handle(resource.Table[keyClient, types.KeyPairInfo]{
		Client: func(config aws.Config) keyClient {
			return keyClient{ec2.NewFromConfig(config), ssm.NewFromConfig(config)}
		},
		Create: createKeyPair,
		Find: func(ctx context.Context, c keyClient, r *resource.Request) (string, error) {
			return keyPairs.find(ctx, c.Client, r)
		},
		Describe: func(ctx context.Context, c keyClient, r *resource.Request) (*types.KeyPairInfo, error) {
			return keyPairs.describe(ctx, c.Client, r)
		},
		Configure: []resource.Step[keyClient]{
			{Properties: []string{"KeyName"}, Run: ensureParameter},
			{Properties: []string{"Tags"}, Tags: true, Run: func(ctx context.Context, c keyClient, r *resource.Request) error {
				k, err := keyPairs.describe(ctx, c.Client, r)
				if err != nil {
					return err
				}
				return changeTags(ctx, c.Client, r, aws.ToString(k.KeyPairId))
			}},
		},
		Delete: deleteKeyPair,
		Attributes: func(_ *resource.Request, k *types.KeyPairInfo) map[string]any {
			return map[string]any{"KeyPairId": aws.ToString(k.KeyPairId), "KeyFingerprint": aws.ToString(k.KeyFingerprint)}
		},
		Properties: func(_ context.Context, _ keyClient, _ *resource.Request, k *types.KeyPairInfo) (map[string]any, error) {
			return encode(map[string]any{"KeyName": aws.ToString(k.KeyName), "KeyType": string(k.KeyType)}, nil, k.Tags, nil),
				nil
		},
	}),
}

// importKeyPair makes a key pair of the public key in the properties.
var importKeyPair = resource.Create((*ec2.Client).ImportKeyPair,
	resource.Members{"KeyType": resource.Left, "KeyFormat": resource.Left, "PublicKeyMaterial": resource.Left,
		"Tags": resource.Left},
	func(out *ec2.ImportKeyPairOutput) *string { return out.KeyName },
	func(r *resource.Request, in *ec2.ImportKeyPairInput) error {
		in.PublicKeyMaterial, in.TagSpecifications = []byte(r.Text("PublicKeyMaterial")), keyPairs.tags(r)
		return nil
	})

// createKeyPair imports the key of the properties, or has EC2 make one, whose private half becomes a parameter.
func createKeyPair(ctx context.Context, c keyClient, r *resource.Request) (string, error) {
	if r.Text("PublicKeyMaterial") != "" {
		return importKeyPair(ctx, c.Client, r)
	}
	out, err := resource.Call(ctx, c.Client, r, (*ec2.Client).CreateKeyPair, resource.Members{"Tags": resource.Left},
		func(r *resource.Request, in *ec2.CreateKeyPairInput) error {
			in.TagSpecifications = keyPairs.tags(r)
			return nil
		})
	if err != nil {
		return "", err
	}
	made := &types.KeyPairInfo{KeyPairId: out.KeyPairId}
	_, err = c.ssm.PutParameter(ctx, &ssm.PutParameterInput{Name: new(parameterOf(made)), Value: out.KeyMaterial,
		Type: ssmtypes.ParameterTypeSecureString})
	return aws.ToString(out.KeyName), err
}

// ensureParameter makes a key pair again whose private half was lost, as the daemon died before it was a parameter.
func ensureParameter(ctx context.Context, c keyClient, r *resource.Request) error {
	if r.Text("PublicKeyMaterial") != "" {
		return nil
	}
	k, err := keyPairs.describe(ctx, c.Client, r)
	if err != nil {
		return err
	}
	_, err = c.ssm.GetParameter(ctx, &ssm.GetParameterInput{Name: new(parameterOf(k))})
	if !resource.IsNotFound(err) {
		return err
	}
	if _, err := c.DeleteKeyPair(ctx, &ec2.DeleteKeyPairInput{KeyPairId: k.KeyPairId}); err != nil {
		return err
	}
	_, err = createKeyPair(ctx, c, r)
	return err
}

// deleteKeyPair deletes a key pair with its parameter.
func deleteKeyPair(ctx context.Context, c keyClient, r *resource.Request) error {
	k, err := keyPairs.describe(ctx, c.Client, r)
	if err != nil {
		return err
	}
	if r.Text("PublicKeyMaterial") == "" {
		_, err := c.ssm.DeleteParameter(ctx, &ssm.DeleteParameterInput{Name: new(parameterOf(k))})
		if err != nil && !resource.IsNotFound(err) {
			return err
		}
	}
	_, err = c.DeleteKeyPair(ctx, &ec2.DeleteKeyPairInput{KeyPairId: k.KeyPairId})
	return err
}

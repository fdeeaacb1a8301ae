"""Tests of a Python program against Coracle, in the container image that "make dist" makes.

    pip install boto3 pytest testcontainers
    docker load --input coracle-*.image.tar
    pytest

A daemon that is running already is used instead if the environment names it: eval "$(coracle env)".
"""

import json
import os
import shlex
import uuid

import boto3
import pytest


def exports(text):
    """Returns what the output of "coracle env" exports."""
    words = shlex.split(text)
    return dict(word.split("=", 1) for word in words if "=" in word)


@pytest.fixture(scope="session")
def coracle():
    """The environment of AWS clients of a Coracle that all tests share."""
    if "AWS_ENDPOINT_URL" in os.environ:
        yield dict(os.environ)
        return
    from testcontainers.core.container import DockerContainer

    with DockerContainer("coracle:latest").with_kwargs(privileged=True).with_exposed_ports(4566) as container:
        port = container.get_exposed_port(4566)
        # The command waits until the daemon serves.
        status, output = container.exec(["/usr/bin/coracle", "up"])
        assert status == 0, output.decode()
        _, output = container.exec(["/usr/bin/coracle", "env"])
        environment = exports(output.decode())
        environment["AWS_ENDPOINT_URL"] = f"http://{container.get_container_host_ip()}:{port}"
        yield environment


@pytest.fixture(scope="session")
def session(coracle):
    """A session of the AWS SDK. Clients find the endpoint by themselves where it is in the environment."""
    os.environ["AWS_ENDPOINT_URL"] = coracle["AWS_ENDPOINT_URL"]
    return boto3.Session(
        aws_access_key_id=coracle["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=coracle["AWS_SECRET_ACCESS_KEY"],
        region_name=coracle["AWS_REGION"],
    )


def client(session, service):
    return session.client(service, endpoint_url=os.environ["AWS_ENDPOINT_URL"])


@pytest.fixture
def cluster(session):
    """An EKS cluster of the test's own."""
    name = "test-" + uuid.uuid4().hex[:8]
    iam, ec2, eks = (client(session, service) for service in ("iam", "ec2", "eks"))
    trust = {
        "Version": "2012-10-17",
        "Statement": [
            {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"Service": "eks.amazonaws.com"}}
        ],
    }
    role = iam.create_role(RoleName=name, AssumeRolePolicyDocument=json.dumps(trust))["Role"]["Arn"]
    policy = "arn:aws:iam::aws:policy/AmazonEKSClusterPolicy"
    iam.attach_role_policy(RoleName=name, PolicyArn=policy)
    # In two zones that EKS has control planes in: us-east-1e is none of them.
    zones = sorted(ec2.describe_subnets()["Subnets"], key=lambda subnet: subnet["AvailabilityZone"])
    subnets = [subnet["SubnetId"] for subnet in zones[:2]]
    eks.create_cluster(name=name, roleArn=role, resourcesVpcConfig={"subnetIds": subnets})
    eks.get_waiter("cluster_active").wait(name=name, WaiterConfig={"Delay": 1, "MaxAttempts": 120})
    yield eks.describe_cluster(name=name)["cluster"]
    eks.delete_cluster(name=name)
    eks.get_waiter("cluster_deleted").wait(name=name, WaiterConfig={"Delay": 1, "MaxAttempts": 120})
    iam.detach_role_policy(RoleName=name, PolicyArn=policy)
    iam.delete_role(RoleName=name)


def test_a_cluster_is_active(cluster):
    assert cluster["status"] == "ACTIVE"
    assert cluster["endpoint"].startswith("https://")


def test_the_account_is_alone(session):
    identity = client(session, "sts").get_caller_identity()
    assert identity["Account"] == "111122223333"

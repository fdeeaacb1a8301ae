// Subnets of a VPC, and which of them are private.
import {
  EC2Client,
  paginateDescribeRouteTables,
  paginateDescribeSubnets,
  type RouteTable,
  type Subnet,
} from "@aws-sdk/client-ec2";
import { useAwsPages } from "../../../aws/queries";

/** A subnet that a form offers. */
export interface Place {
  id: string;
  name: string;
  zone: string;
  cidr: string;
  vpc: string;
  /** Has a route to an internet gateway; undefined as long as that is not known. */
  isPublic?: boolean;
}

/** IsPublic reports whether a subnet has a direct route to an internet gateway. */
export function isPublic(subnet: Subnet, tables: RouteTable[]): boolean {
  const own = tables.find(({ Associations }) => Associations?.some(({ SubnetId }) => SubnetId === subnet.SubnetId));
  const main = tables.find(
    ({ VpcId, Associations }) => VpcId === subnet.VpcId && Associations?.some(({ Main }) => Main),
  );
  return (own ?? main)?.Routes?.some(({ GatewayId }) => GatewayId?.startsWith("igw-")) === true;
}

/** PlaceOf returns what a form shows of a subnet. */
export function placeOf(subnet: Subnet, tables?: RouteTable[]): Place {
  return {
    id: subnet.SubnetId ?? "",
    name: subnet.Tags?.find(({ Key }) => Key === "Name")?.Value ?? "",
    zone: subnet.AvailabilityZone ?? "",
    cidr: subnet.CidrBlock ?? "",
    vpc: subnet.VpcId ?? "",
    isPublic: tables && isPublic(subnet, tables),
  };
}

/** UsePlaces lists the subnets of a VPC, with which of them are private. */
export function usePlaces(vpcId: string | undefined): { places: Place[] | undefined; error: Error | null } {
  const input = { Filters: [{ Name: "vpc-id", Values: [vpcId ?? ""] }] };
  const enabled = vpcId !== undefined;
  const subnets = useAwsPages(EC2Client, paginateDescribeSubnets, input, (page) => page.Subnets, { enabled });
  const tables = useAwsPages(EC2Client, paginateDescribeRouteTables, input, (page) => page.RouteTables, { enabled });
  const known = subnets.data !== undefined && tables.data !== undefined;
  return {
    places: known ? subnets.data.map((subnet) => placeOf(subnet, tables.data)) : undefined,
    error: subnets.error ?? tables.error,
  };
}

import Link, { type LinkProps } from "@cloudscape-design/components/link";
import type { ReactNode } from "react";
import { useHref, useNavigate } from "react-router";

interface Props extends Pick<LinkProps, "variant" | "fontSize" | "ariaLabel"> {
  /** A path of the console, without its base path. */
  to: string;
  children: ReactNode;
}

/** AppLink is a link to another page of the console. */
export function AppLink({ to, children, ...rest }: Props) {
  const navigate = useNavigate();
  return (
    <Link
      {...rest}
      href={useHref(to)}
      onFollow={(event) => {
        event.preventDefault();
        void navigate(to);
      }}
    >
      {children}
    </Link>
  );
}

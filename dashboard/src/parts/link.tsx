/** Links within the page: they change the address without loading it anew. */

import type { AnchorHTMLAttributes, MouseEvent, ReactElement } from "react";
import { useWho } from "../api/queries";
import { go } from "../routing";

type Rest = Omit<AnchorHTMLAttributes<HTMLAnchorElement>, "href">;

/** A link to a path below the signed-in account. */
export function Link({ to, ...rest }: Rest & { to: string }): ReactElement {
  const href = useHref(to);
  return <a {...rest} href={href} onClick={followed(href)} />;
}

/** Address of a path below the signed-in account. */
export function useHref(to: string): string {
  return `/${useWho().account}${to}`;
}

function followed(href: string) {
  return (event: MouseEvent<HTMLAnchorElement>): void => {
    const elsewhere = event.metaKey || event.ctrlKey || event.shiftKey || event.altKey;
    if (event.defaultPrevented || elsewhere || event.button !== 0) return;
    event.preventDefault();
    go(href);
  };
}

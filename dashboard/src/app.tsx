/** The frame of every page: who is signed in, where one can go, and which view stands here. */

import { lazy, type ReactElement, Suspense, useEffect, useState } from "react";
import { type Credentials, keep, kept } from "./api/credentials";
import { Who } from "./api/queries";
import { Empty, Loading } from "./parts/states";
import { TopBar } from "./parts/top-bar";
import { go, usePlace } from "./routing";
import { CaptureView } from "./views/capture";
import { LaterView } from "./views/later";
import { SessionView } from "./views/session";
import { SessionsView } from "./views/sessions";
import { SignIn } from "./views/sign-in";
import { WorkerView } from "./views/worker";
import { WorkersView } from "./views/workers";

const CompareView = lazy(async () => ({ default: (await import("./views/compare")).CompareView }));

export function App({ forget }: { forget: () => void }): ReactElement {
  const { path } = usePlace();
  const [who, setWho] = useState<Credentials | null>(kept);
  const [account = "", view = "", ...rest] = path.split("/").slice(1).map(decoded);
  const signedIn = who !== null && (account === "" || account === who.account);

  useEffect(() => {
    if (who !== null && account === "") go(`/${who.account}/workers`, "replace");
  }, [who, account]);

  if (!signedIn) {
    const enter = (credentials: Credentials, forTheTab: boolean): void => {
      keep(credentials, forTheTab);
      forget();
      setWho(credentials);
      if (account !== credentials.account) go(`/${credentials.account}/workers`, "replace");
    };
    return <SignIn account={account} enter={enter} />;
  }
  const leave = (): void => {
    keep(null, false);
    forget();
    setWho(null);
    go("/", "replace");
  };
  return (
    <Who value={who}>
      <a className="skip" href="#main">
        Skip to the content
      </a>
      <TopBar account={who.account} view={view} leave={leave} />
      <main id="main" tabIndex={-1}>
        <Suspense fallback={<Loading what="this view" />}>
          <View view={view} rest={rest} />
        </Suspense>
      </main>
    </Who>
  );
}

function View({ view, rest }: { view: string; rest: string[] }): ReactElement {
  const [id = ""] = rest;
  switch (view) {
    case "":
    case "workers":
      return id === "" ? <WorkersView /> : <WorkerView worker={id} key={id} />;
    case "capture":
      return <CaptureView />;
    case "sessions":
      return id === "" ? <SessionsView /> : <SessionView id={id} key={id} />;
    case "compare":
      return <CompareView />;
    case "timeline":
    case "memory":
      return <LaterView which={view} />;
    default:
      return (
        <Empty title="There is no such page">
          Choose one from the navigation above, or check the address.
        </Empty>
      );
  }
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

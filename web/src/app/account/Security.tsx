import { Email } from "./Email";
import { Password } from "./Password";
import { SecondFactor } from "./SecondFactor";
import { Sessions } from "./Sessions";

/** How the user logs in: the e-mail address, the password, the second factor and the logged-in devices. */
export function Security() {
  return (
    <>
      <Email />
      <Password />
      <SecondFactor />
      <Sessions />
    </>
  );
}
